"""What the options of `answerbus replay` mean."""

import json
import time
from pathlib import Path

import pytest
import typer

from services.commands.replay.options import allowance_of, edits_from, keys_of, selection_of
from services.operator_options import operator
from services.operators.dead_letters.edit import Edits, replacing
from services.operators.dead_letters.groups import Key
from services.operators.dead_letters.prepare_replay import BudgetOverride
from services.operators.dead_letters.selection import Selection

NOON_MS = 1_795_262_400_000
PATCH = '[{"op":"replace","path":"/profile","value":"large"}]'


def test_no_option_means_all_open_dead_letters() -> None:
    assert selection_of() == Selection()


def test_a_misspelt_cause_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(typer.BadParameter, match="Did you mean rejected"):
        selection_of(["cause=rejectd"])
    with pytest.raises(typer.BadParameter, match="Known: malformed, invalid"):
        selection_of(["failure=nope"])


def test_conditions_are_keys_with_values_and_empty_is_none() -> None:
    chosen = selection_of(
        ["cause=rejected", "label:tenant=a=b", "failure="], ["r-1"], None, None, 5, ["replayed"]
    )

    assert chosen == Selection(
        where=(
            (Key("cause"), "rejected"),
            (Key("label:", "tenant"), "a=b"),
            (Key("failure"), None),
        ),
        ids=frozenset({"r-1"}),
        limit=5,
        statuses=frozenset({"replayed"}),
    )


@pytest.mark.parametrize("text", ["2026-11-21T12:00:00Z", "2026-11-21T13:00:00+01:00"])
def test_a_time_may_be_given_as_rfc_3339(text: str) -> None:
    assert selection_of(since=text, until=text) == Selection(since_ms=NOON_MS, until_ms=NOON_MS)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("30m", 1_800), ("2h", 7_200), ("3d", 259_200)]
)
def test_a_time_may_be_so_long_ago(text: str, seconds: int) -> None:
    before_ms = (time.time() - seconds) * 1000
    since_ms = selection_of(since=text).since_ms

    assert since_ms is not None
    assert int(before_ms) <= since_ms <= (time.time() - seconds) * 1000


def test_a_time_that_ends_before_it_begins_is_a_mistake() -> None:
    with pytest.raises(typer.BadParameter, match="--since is later than --until"):
        selection_of(since="2h", until="3h")


@pytest.mark.parametrize(
    ("given", "allowance"),
    [
        (None, BudgetOverride()),
        ("5", BudgetOverride(attempts=5)),
        ("0", BudgetOverride(attempts=0)),
        ("attempts=5, tokens=20000,micro_usd=7", BudgetOverride(5, 20_000, 7)),
        ("attempts=5, usd=0.10", BudgetOverride(5, None, 100_000)),
        ("usd=2.000001", BudgetOverride(None, None, 2_000_001)),
    ],
)
def test_a_budget(given: str | None, allowance: BudgetOverride) -> None:
    assert allowance_of(given) == allowance


def test_an_edit_is_a_text_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "edit.json"
    file.write_text(json.dumps({"r-1": json.loads(PATCH)}))
    large = (replacing("/profile", "large"),)

    assert edits_from(None) == Edits()
    assert edits_from(PATCH) == Edits(for_all=large)
    assert edits_from(str(file)) == Edits(by_dead_letter={"r-1": large})


def test_an_operator_is_who_is_said_or_who_it_is() -> None:
    assert operator("ops@acme") == "ops@acme"
    assert "@" in operator(None)


@pytest.mark.parametrize(
    ("read", "given", "text"),
    [
        (selection_of, {"where": ["cause"]}, "is not KEY=VALUE"),
        (selection_of, {"where": ["couse=x"]}, "'couse' is none of why,"),
        (selection_of, {"status": ["opn"]}, "'opn' is none of open,"),
        (selection_of, {"since": "yesterday"}, "'yesterday' is not a time"),
        (selection_of, {"until": "2h ago"}, "'2h ago' is not a time"),
        (selection_of, {"since": "0001-01-01T00:00:00+14:00"}, "00+14:00' is not a time"),
        (keys_of, {"texts": ["label:"]}, "'label:' is none of"),
        (allowance_of, {"given": "9" * 5_000}, "is not such as attempts=5"),
        (allowance_of, {"given": "many"}, "'many' is not such as attempts=5"),
        (allowance_of, {"given": "calls=5"}, "'calls=5' is not such as"),
        (allowance_of, {"given": "-1"}, "'-1' is not such as"),
        (allowance_of, {"given": "5,"}, "'' is not such as"),
        (edits_from, {"given": "/no/such/file"}, "/no/such/file cannot be read"),
        (edits_from, {"given": "[1]"}, "--edit: /0"),
        (edits_from, {"given": "[{"}, "--edit: this is not one JSON document"),
    ],
)
def test_what_an_option_cannot_mean_is_said(
    read: object, given: dict[str, object], text: str
) -> None:
    assert callable(read)
    with pytest.raises(typer.BadParameter) as error:
        read(**given)

    assert text in error.value.message
