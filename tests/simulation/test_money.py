"""The console's sums over histories of faults: one figure for each, equal to the journal's."""

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest

from answerbus.private.ledger import AccountRecord
from answerbus.topics import ATTEMPTS, LEDGER
from services.console.figures.spend_rows import (
    amounts_of,
    by_contract,
    by_label,
    by_model,
    by_workflow,
)
from services.console.pages.money import VALUES_SHOWN
from services.console.state.board import Board, Window
from services.console.state.spend_table import Amounts, sum_of
from services.console.views.units import MINUTE_MS
from services.operators.records.summary import summarize
from tests.simulation.billing import billed
from tests.simulation.judge import Verdict, judge

SEEDS = range(13)
EACH = pytest.mark.parametrize("seed", SEEDS)
WINDOW_MINUTES = 24 * 60

Key = tuple[str, str, int]  # workflow, request, attempt


@cache
def history(seed: int) -> Verdict:
    verdict = judge(seed)
    assert verdict.is_fine, verdict.complaints
    return verdict


def board_of(verdict: Verdict) -> tuple[Board, Window]:
    board, records = Board(), verdict.stored()
    for record in records:
        board.take(summarize(record))
    newest_ms = max(record.at_ms for record in records)
    return board, board.window(newest_ms + MINUTE_MS, WINDOW_MINUTES, 1)


def attempts(verdict: Verdict) -> dict[Key, dict[str, Any]]:
    found = [json.loads(one.value or b"") for one in verdict.records if one.topic == ATTEMPTS.name]
    return {(one["workflow_id"], one["request_id"], one["attempt"]): one for one in found}


def journal(verdict: Verdict) -> dict[Key, int]:
    """What each call cost, by the provider's own notes and formula."""
    return {
        (one.workflow_id, one.request_id, one.attempt): one.price * billed(one.facts)
        for one in verdict.calls
    }


@EACH
def test_used_is_what_the_provider_noted_but_for_what_was_lost_with_a_worker(seed: int) -> None:
    verdict = history(seed)
    cost, made = journal(verdict), attempts(verdict)
    lost = {key for key, one in made.items() if one["outcome"] == "unknown"}
    total = board_of(verdict)[1].total.spent

    assert total.micro_usd == sum(cost[key] for key in cost.keys() - lost)
    assert total.charged_micro_usd >= sum(cost.values())


@EACH
def test_calls_are_those_that_the_provider_saw_and_those_of_which_nobody_knows(seed: int) -> None:
    verdict = history(seed)
    seen, made = journal(verdict).keys(), attempts(verdict)
    lost = {key for key, one in made.items() if one["outcome"] == "unknown"}

    assert board_of(verdict)[1].total.spent.calls == len(seen | lost)


@EACH
def test_charged_is_what_all_accounts_were_charged(seed: int) -> None:
    verdict = history(seed)
    accounts = {
        one.key: AccountRecord.model_validate_json(one.value or b"")
        for one in verdict.records
        if one.topic == LEDGER.name and (one.key or b"").startswith(b"account:") and one.value
    }
    total = board_of(verdict)[1].total.spent

    assert total.charged_micro_usd == sum(one.spent.micro_usd for one in accounts.values())


@EACH
def test_every_table_adds_up_to_the_total(seed: int) -> None:
    board, window = board_of(history(seed))
    total = amounts_of(window.total.spent)
    contracts, models = by_contract(window.total, board.schema_labels), by_model(window.total)
    labels = {table.name: table.rows for table in by_label(board, window, VALUES_SHOWN)}

    assert sum_of(amounts_of(row.spent) for row in contracts) == total
    assert sum_of(amounts_of(row.spent) for row in models) == total
    assert sum_of(row.amounts for row in by_workflow(board, window, 3)) == total
    assert set(labels) - {"team"} in ({"company", "tenant", "ticket"}, set())
    for rows in labels.values():
        assert sum_of(row.amounts for row in rows) == total
        assert len(rows) <= VALUES_SHOWN + 3
        assert all(row.is_exact for row in rows)


def test_the_faults_that_these_tests_are_for_are_among_their_histories() -> None:
    outcomes = Counter[str]()
    unreported = labelled = 0
    for seed in SEEDS:
        labelled += bool(by_label(*board_of(history(seed)), VALUES_SHOWN))
        for one in attempts(history(seed)).values():
            outcomes[one["outcome"]] += 1
            outcomes["no call"] += one["outcome"] == "released" and one["model"] is None
            unreported += one["charged"] != {"attempts": 0, "tokens": 0, "micro_usd": 0} and (
                one["usage"] == {"input_tokens": None, "output_tokens": None, "micro_usd": None}
            )

    assert min(outcomes["unknown"], outcomes["no call"], unreported) >= 3, outcomes
    assert labelled >= len(SEEDS) - 2  # budgets may leave no call to requests with labels
    assert Amounts() == sum_of(())
