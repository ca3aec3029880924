"""Letters as operators see them on a screen."""

import time
from io import StringIO

import pytest

from answerbus.registry import Registry
from services.command_line import PlainConsole
from services.commands.replay import views
from services.operators.dead_letters.forecast import Forecast, KnownNames
from services.operators.dead_letters.groups import Key, group
from services.operators.dead_letters.prepare_replay import Rejection
from services.operators.dead_letters.row import STATUSES, BudgetAmounts
from services.operators.dead_letters.selection import Selection, select
from services.operators.records.dead_letter_key import DeadLetterKey
from tests.unit.operators.dead_letters.examples import (
    dead_letter_body,
    dead_letter_event,
    folded,
    replayed_body,
)
from tests.unit.operators.dead_letters.test_prepare_replay import prepared

DEAD_LETTERS = folded(
    dead_letter_body("r-1", labels={"tenant": "acme\x1b[31m"}),
    dead_letter_body("r-2", cause={"kind": "rejected", "status": 400, "code": None}, prior=[]),
    replayed_body("r-2"),
    dead_letter_body("r-2.replay.1", round=1, prior=[]),
)


def test_groups_are_shown_in_two_lines_each_without_control_sequences() -> None:
    keys = [Key("cause"), Key("label:", "tenant")]
    lines = [str(line) for line in views.groups_lines(group(DEAD_LETTERS, keys), keys)]

    assert lines[0] == "dead letters  cause             label:tenant"
    assert lines[1] == "1             budget_exhausted  -"
    assert lines[3] == r"1             budget_exhausted  acme\u001b[31m"
    assert lines[2].endswith("1 attempt, 10 tokens, $0, such as r-2.replay.1.dead-letter@w-0")
    assert lines[-1] == "3 dead letters in 3 groups"


def test_times_are_of_utc_as_those_of_the_options_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0")
        time.tzset()
        heads, line, *_ = views.dead_letter_lines(list(DEAD_LETTERS), DEAD_LETTERS)
        keys = [Key("cause")]
        _, _, times, *_ = views.groups_lines(group(DEAD_LETTERS, keys), keys)
    time.tzset()

    assert (str(heads)[:10], str(line)[:11]) == ("died (UTC)", "11-21 10:00")
    assert str(times).startswith("        11-21 10:00 to 11-21 10:00 UTC, 1 attempt")


def test_one_dead_letter_is_in_one_group() -> None:
    keys = [Key("cause")]
    lines = list(views.groups_lines(group(folded(dead_letter_body("r-1")), keys), keys))

    assert str(lines[-1]) == "1 dead letter in 1 group"


def test_no_dead_letters_are_no_groups() -> None:
    assert [str(line) for line in views.groups_lines([], [Key("cause")])] == [
        "dead letters  cause",
        "0 dead letters in 0 groups",
    ]


def test_a_dead_letter_says_what_came_of_its_replay() -> None:
    chosen = select(
        DEAD_LETTERS, Selection(ids=frozenset({"r-2.dead-letter"}), statuses=frozenset(STATUSES))
    )
    _, line = [str(line) for line in views.dead_letter_lines(chosen, DEAD_LETTERS)]
    data = views.dead_letter_data(chosen[0], DEAD_LETTERS.replay_outcome(chosen[0]))

    assert line.endswith(
        "r-2.dead-letter  w-0       rejected: 400  text    default  replayed, dead"
    )
    assert (data["status"], data["replayed_as"], data["fate"], data["new_letter"]) == (
        "replayed",
        "r-2.replay.1",
        "dead",
        "r-2.replay.1.dead-letter",
    )


def test_a_long_id_moves_the_rest_of_its_own_row_alone() -> None:
    long = "w" * 250
    letters = folded(dead_letter_body("r-1"), dead_letter_body("r-2", workflow_id=long))
    chosen = select(letters, Selection())
    _, *lines = [str(line) for line in views.dead_letter_lines(chosen, letters)]

    (wide,) = (line for line in lines if long in line)
    (narrow,) = (line for line in lines if long not in line)
    assert len(narrow) < 160 < len(wide)


def test_ids_of_dead_letters_that_died_again_are_whole_on_narrow_terminals() -> None:
    name = "r-" + "1" * 100
    letters = folded(
        dead_letter_body(name, prior=[]),
        replayed_body(name),
        dead_letter_body(f"{name}.replay.1", round=1, prior=[]),
    )
    data = views.status_data(list(letters), letters)

    assert [str(line) for line in views.dead_again_lines(data)] == [
        f"died again: {name}.dead-letter -> {name}.replay.1.dead-letter"
    ]


def test_status_counts_dead_letters_and_the_fates_of_replays() -> None:
    data = views.status_data(list(DEAD_LETTERS), DEAD_LETTERS)

    assert data == {
        "open": 2,
        "dismissed": 0,
        "replayed": 1,
        "fates": {"pending": 0, "answered": 0, "refused": 0, "dead": 1},
        "dead_again": [
            {
                "dead_letter_id": "r-2.dead-letter",
                "workflow_id": "w-0",
                "new_letter": "r-2.replay.1.dead-letter",
            }
        ],
    }


def test_what_has_no_limit_says_so() -> None:
    assert views.amounts_text(BudgetAmounts(3, None, 2_500_000)) == (
        "3 attempts, any number of tokens, $2.50"
    )
    assert (
        views.amounts_text(BudgetAmounts(3, 1_000, None))
        == "3 attempts, 1,000 tokens, no limit in money"
    )


def test_ids_of_a_forecast_are_whole_on_a_narrow_screen() -> None:
    long = "row-" + "a" * 90
    forecast, dead_letter = Forecast(KnownNames(None, Registry())), dead_letter_event(long)
    key = DeadLetterKey.of(dead_letter)
    forecast.take(key, prepared(dead_letter))
    forecast.take(key, Rejection("no_request", "It holds no request"))
    console = PlainConsole(
        file=StringIO(), width=80, force_terminal=True, color_system=None, soft_wrap=True
    )

    console.print(*views.forecast_lines(forecast, "to be replayed"), sep="\n")

    assert isinstance(console.file, StringIO)
    first, *_, last = console.file.getvalue().splitlines()
    assert first.startswith("1 dead letter to be replayed: at most ")
    assert last.startswith("1 dead letter held back, ")
    assert last.endswith(f"such as {key.text}")
    assert long in key.text
