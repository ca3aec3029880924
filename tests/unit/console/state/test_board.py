"""The board: what is counted, by the minute, and what is forgotten."""

from collections import Counter
from typing import Any

import pytest

from answerbus.topics import RETRIES
from services.console.state.board import (
    CONTRACTS_KEPT,
    LABEL_NAMES_KEPT,
    LABELS_KEPT,
    MODELS_KEPT,
    NONE,
    OTHERS,
    PROFILES_KEPT,
    WORKFLOWS_KEPT,
    Board,
)
from services.console.views.units import KEPT_MINUTES
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, body_of, stored


def board_of(*records: Stored) -> Board:
    board = Board()
    for record in records:
        board.take(summarize(record))
    return board


def test_outcomes_are_counted_in_the_minute_that_kafka_gives_them() -> None:
    board = board_of(
        stored("result/dep_bump", NOON_MS),
        stored("result/dep_bump", NOON_MS + MINUTE_MS - 1),
        stored("refusal/by_model", NOON_MS + MINUTE_MS),
        stored("dead_letter/unknown_profile", NOON_MS - 2 * MINUTE_MS),
        stored("unvalidated_result/invalid", NOON_MS - 3 * MINUTE_MS),
    )

    window = board.window(NOON_MS + MINUTE_MS, 3, 3)

    assert window.outcomes == {
        "result": (0, 2, 0),
        "unvalidated_result": (0, 0, 0),
        "refusal": (0, 0, 1),
        "dead_letter": (0, 0, 0),
    }
    assert window.starts_ms == (NOON_MS - MINUTE_MS, NOON_MS, NOON_MS + MINUTE_MS)
    assert board.window(NOON_MS + MINUTE_MS, 6, 2).outcomes["dead_letter"] == (1, 0)
    assert board.window(NOON_MS - 2 * MINUTE_MS, 1, 1).total.causes == {"unknown_profile": 1}


def test_contracts_are_counted_by_how_their_requests_ended() -> None:
    board = board_of(
        stored("result/dep_bump", attempt=1),
        stored("result/dep_bump", attempt=2),
        stored("refusal/by_model"),
        stored("unvalidated_result/invalid", schema=body_of("result/dep_bump")["schema"]),
        stored("dead_letter/unknown_profile"),
        stored("dead_letter/undecodable"),
    )

    found = board.window(NOON_MS, 1, 1).total.contracts
    counts = found["plan_proposal.v1"]

    assert (counts.first_try, counts.mended, counts.refused, counts.unvalidated) == (1, 1, 1, 1)
    assert counts.died == {"unknown_profile": 1}
    assert counts.ended == 5
    assert counts.took.total == 4
    assert found[NONE].died == {"undecodable": 1}


def test_calls_and_their_cost_are_added_up_with_repairs_apart() -> None:
    usage = {"input_tokens": 100, "output_tokens": 11, "micro_usd": 5}
    board = board_of(
        stored("attempt/result", usage=usage, attempt=1, duration_ms=1000),
        stored("attempt/retry", usage=usage, attempt=2),
        stored("attempt/unknown", usage={}, model=None, attempt=1),
    )

    total = board.window(NOON_MS, 1, 1).total
    spent = total.spent
    assert (spent.calls, spent.tokens, spent.micro_usd) == (3, 222, 10)
    assert spent.repairs_micro_usd == 5
    profile = total.profiles["default"]
    assert (profile.made, profile.answered, profile.failures) == (2, 2, {"invalid": 1})
    assert profile.took.total == 2


def test_a_digest_is_named_by_the_outcomes_that_it_led_to() -> None:
    result = body_of("result/dep_bump")
    board = board_of(stored("attempt/result", schema_digest=result["schema"]["digest"]))
    (pair,) = board.window(NOON_MS, 1, 1).total.spend

    assert board.schema_labels.of(pair[0]) == "(no answer so far)"
    board.take(summarize(stored("result/dep_bump")))
    assert board.schema_labels.of(pair[0]) == "plan_proposal.v1"


def test_an_attempt_that_was_released_before_its_call_is_no_call() -> None:
    never_made = stored("attempt/released", model=None, failure=None)
    total = board_of(never_made, stored("attempt/released")).window(NOON_MS, 1, 1).total

    assert (total.spent.calls, total.spent.outcomes) == (1, {"released": 1})


def test_what_was_used_and_what_was_charged_are_two_figures() -> None:
    lost = {"attempts": 1, "tokens": 900, "micro_usd": 70}
    reported = {"input_tokens": 1, "output_tokens": 1, "micro_usd": 5}
    board = board_of(
        stored("attempt/result", usage=reported, charged={**lost, "micro_usd": 5}),
        stored("attempt/retry", usage={}, charged=lost),
        stored("attempt/unknown", usage={}, charged=lost),
    )
    spent = board.window(NOON_MS, 1, 1).total.spent

    assert (spent.micro_usd, spent.charged_micro_usd) == (5, 145)


@pytest.mark.wide
def test_a_label_of_each_request_does_not_hide_the_tenants() -> None:
    def call(micro_usd: int, n: int, **labels: str) -> Stored:
        usage = {"input_tokens": 1, "output_tokens": 1, "micro_usd": micro_usd}
        charged = {"attempts": 1, "tokens": 2, "micro_usd": micro_usd}
        amounts: dict[str, Any] = {"usage": usage, "charged": charged}
        return stored("attempt/result", request_id=f"r-{n}", labels=labels, **amounts)

    tickets = 3 * LABELS_KEPT
    board = board_of(*(call(10, n, ticket=str(n)) for n in range(tickets)))
    for n in range(100):
        board.take(summarize(call(100, n, ticket=f"a{n}", tenant="acme")))
    window = board.window(NOON_MS, 1, 1)
    rows = board.labels.between(*window.minutes)
    named = {row.name: row for row in board.label_names.between(*window.minutes)}

    assert (rows[0].name, rows[0].amounts.micro_usd) == (("tenant", "acme"), 10_000)
    assert rows[0].is_whole
    assert rows[1].name[1].startswith("a")
    assert len(rows) <= 2 * LABELS_KEPT
    assert named["ticket"].amounts.micro_usd == 10 * tickets + 10_000


@pytest.mark.parametrize("odd", [{"labels": 5}, {"labels": {"a": 1}}, {"requested_at": "soon"}])
def test_what_a_forged_outcome_holds_does_not_hide_it(odd: dict[str, Any]) -> None:
    board = board_of(stored("result/dep_bump", **odd))

    assert board.window(NOON_MS, 1, 1).total.outcomes == {"result": 1}


@pytest.mark.parametrize(
    ("failures", "is_unhealthy"),
    [
        (["unavailable", "timed_out", "throttled"], True),
        (["unavailable", "unavailable"], False),  # too few to say
        (["unavailable", "unavailable", "unavailable", "invalid"], False),  # the model answered
    ],
)
def test_a_profile_is_unhealthy_when_no_call_was_answered(
    failures: list[str], is_unhealthy: bool
) -> None:
    board = board_of(*(stored("attempt/retry", failure={"kind": kind}) for kind in failures))

    assert board.unhealthy(NOON_MS) == (("default",) if is_unhealthy else ())
    assert board.unhealthy(NOON_MS + 10 * MINUTE_MS) == ()


def test_a_provider_that_has_just_gone_away_is_named_by_its_last_calls() -> None:
    def reasons_of(*failures: str) -> tuple[str, ...]:
        answered = stored("attempt/result")
        failed = [stored("attempt/retry", failure={"kind": kind}) for kind in failures]
        return board_of(answered, answered, *failed).unhealthy(NOON_MS)

    assert reasons_of("unavailable", "timed_out", "unavailable") == ("default",)
    assert reasons_of("unavailable", "unavailable", "unavailable", "invalid") == ()
    assert reasons_of("throttled", "throttled", "throttled", "throttled") == ()  # asks for time
    assert reasons_of("unavailable", "unavailable") == ()


def test_who_waits_for_a_retry_is_known_until_it_ends() -> None:
    first = stored("retry_request/unavailable", request_id="r-1")
    again = stored("retry_request/unavailable", NOON_MS + 9, request_id="r-1")
    second = stored("retry_request/throttled", NOON_MS + 5, request_id="r-2")
    ended = Stored(RETRIES, 0, 9, NOON_MS, b"r-1", None, ())
    board = board_of(first, again, second)

    assert board.waiting == Counter({("default", "unavailable"): 1, ("default", "throttled"): 1})
    assert {at: wait.since_ms for at, wait in board.waits.oldest.items()} == {0: NOON_MS}

    board.take(summarize(ended))

    assert board.waiting == Counter({("default", "throttled"): 1})
    assert {at: wait.since_ms for at, wait in board.waits.oldest.items()} == {0: NOON_MS + 5}


def test_a_day_is_kept_and_no_more() -> None:
    board = board_of(
        stored("result/dep_bump", NOON_MS - KEPT_MINUTES * MINUTE_MS),
        stored("result/dep_bump", NOON_MS - (KEPT_MINUTES - 1) * MINUTE_MS),
        stored("result/dep_bump", NOON_MS),
        stored("result/dep_bump", NOON_MS - KEPT_MINUTES * MINUTE_MS),
    )

    assert board.window(NOON_MS, 2 * KEPT_MINUTES, 1).outcomes["result"] == (2,)


@pytest.mark.wide
def test_names_from_outside_do_not_grow_it_without_end() -> None:
    board, many = Board(), 2_500
    for n in range(many):
        schema = {"kind": "inline", "name": f"s{n}", "wrapped": True, "digest": f"x{n}"}
        model = {**body_of("attempt/result")["model"], "profile": f"p{n}"}
        board.take(summarize(stored("result/dep_bump", schema=schema)))
        attempt: dict[str, Any] = {"model": model, "schema_digest": f"x{n}", "workflow_id": f"w{n}"}
        board.take(summarize(stored("attempt/result", labels={f"n{n}": "x"}, **attempt)))

    window = board.window(NOON_MS, 1, 1)
    total, minutes = window.total, window.minutes
    assert len(total.contracts) <= 2 * CONTRACTS_KEPT + 1
    assert len(total.profiles) <= 2 * PROFILES_KEPT + 1
    assert len(total.spend) <= 2 * MODELS_KEPT + 1
    assert len(board.labels.between(*minutes)) <= 2 * LABELS_KEPT
    assert len(board.label_names.between(*minutes)) <= 2 * LABEL_NAMES_KEPT
    assert len(board.workflows.between(*minutes)) <= 2 * WORKFLOWS_KEPT
    assert total.contracts[OTHERS].ended + len(total.contracts) - 1 == many
    assert sum(profile.made for profile in total.profiles.values()) == many
    assert total.spent.calls == many


def test_the_contracts_that_are_shown_are_the_most_frequent_ever_so_late() -> None:
    board = Board()

    def ended(name: str, at_ms: int = NOON_MS) -> None:
        schema = {"kind": "inline", "name": name, "wrapped": True, "digest": f"x{name}"}
        board.take(summarize(stored("result/dep_bump", at_ms, schema=schema)))

    for n in range(5 * CONTRACTS_KEPT):
        ended(f"once-{n}", NOON_MS - MINUTE_MS)
    before = board.window(NOON_MS, 2, 2).total.contracts[OTHERS].ended
    for n in range(5 * CONTRACTS_KEPT):
        ended("often")
        ended(f"again-{n}")

    found = board.window(NOON_MS, 2, 2).total.contracts
    label = next(name for name in found if "often" in name)
    assert found[label].ended == 5 * CONTRACTS_KEPT
    assert found[OTHERS].ended > before > 0
    assert sum(one.ended for one in found.values()) == 15 * CONTRACTS_KEPT


def test_sums_of_the_past_are_remembered_until_a_record_of_the_past_comes() -> None:
    old_ms = NOON_MS - 30 * MINUTE_MS
    board = board_of(stored("result/dep_bump", old_ms), stored("result/dep_bump", NOON_MS))

    def counted() -> list[int]:
        return [step.outcomes["result"] for step in board.window(NOON_MS, 40, 4).steps]

    assert counted() == [1, 0, 0, 1]
    first = board.window(NOON_MS, 40, 4).steps[0]
    assert board.window(NOON_MS, 40, 4).steps[0] is first

    board.take(summarize(stored("result/dep_bump", NOON_MS)))
    assert counted() == [1, 0, 0, 2]
    board.take(summarize(stored("result/dep_bump", old_ms)))
    assert counted() == [2, 0, 0, 2]


def test_a_step_of_a_run_is_an_answer_and_the_call_after_it_no_repair() -> None:
    calls = [
        stored("attempt/step", request_id="run-1", attempt=1),
        stored("attempt/step", request_id="run-1", attempt=2),
        stored("attempt/retry", request_id="run-1", attempt=3),
        stored("attempt/result", request_id="run-1", attempt=4),
    ]
    board = board_of(*calls)
    total = board.window(NOON_MS, 1, 1).total
    profile = total.profiles["default"]

    assert (profile.made, profile.answered) == (4, 4)
    assert sum(spent.repairs for spent in total.spend.values()) == 1


def test_a_profile_that_answers_with_steps_alone_is_healthy() -> None:
    steps = [stored("attempt/step", request_id=f"run-{n}", attempt=1) for n in range(5)]

    assert board_of(*steps).unhealthy(NOON_MS) == ()


@pytest.mark.parametrize(("attempt", "is_first"), [(1, True), (3, True), (4, False)])
def test_a_run_of_two_steps_is_mended_by_a_fourth_call(attempt: int, *, is_first: bool) -> None:
    run = body_of("result/of_run")["run"] | {"steps": 2}
    board = board_of(stored("result/of_run", attempt=attempt, run=run))
    (counts,) = board.window(NOON_MS, 1, 1).total.contracts.values()

    assert (counts.first_try, counts.mended) == (int(is_first), int(not is_first))
