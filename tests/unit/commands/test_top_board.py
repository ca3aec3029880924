"""The board of `answerbus top`: status, bars and data from what was folded."""

from collections import Counter
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from services.commands.terminal.top_board import (
    MINUTES,
    TopFacts,
    as_data,
    bar,
    board_of,
    course,
    status_of,
)
from services.console.figures.outcome_charts import ENDINGS
from services.console.state.board import Board
from services.console.views.lane_grid import LaneCell
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import NOON_MS, stored


def facts_of(*examples: str, **more: Any) -> TopFacts:
    board = Board()
    for example in examples:
        board.take(summarize(stored(example)))
    return TopFacts(board.window(NOON_MS, MINUTES, MINUTES), board.schema_labels, lag=0, **more)


def lane(age_ms: int | None) -> LaneCell:
    return LaneCell(3, "w", 7, 1, age_ms, 0, NOON_MS)


@pytest.mark.parametrize(
    ("more", "level", "reason"),
    [
        ({}, "good", None),
        ({"lanes": [lane(61_000)]}, "warn", "the oldest request waits for 1 min 1 s"),
        ({"lanes": [lane(301_000)]}, "bad", "the oldest request waits for 5 min 1 s"),
        ({"unhealthy": {"claude": "no connection"}}, "bad", "claude: no connection"),
        ({"trouble": "Kafka is away"}, "bad", "Kafka is away"),
    ],
)
def test_the_status_is_the_worst_of_what_is_wrong(
    more: dict[str, Any], level: str, reason: str | None
) -> None:
    found, reasons = status_of(facts_of("result/dep_bump", **more))

    assert found == level
    assert reasons == ([reason] if reason else [])


def test_many_dead_letters_are_trouble() -> None:
    level, reasons = status_of(facts_of("result/dep_bump", "dead_letter/unknown_profile"))

    assert level == "bad"
    assert reasons == ["50.0 % of what ended in 15 minutes died"]


def test_the_board_names_contracts_profiles_lanes_and_letters() -> None:
    facts = facts_of(
        *("result/dep_bump", "attempt/result", "dead_letter/unknown_profile"),
        lanes=[lane(30_000)],
        open_letters=Counter({"unknown_profile": 4}),
        unhealthy={"claude": "no connection"},
    )
    console = Console(width=150, record=True, file=StringIO())
    console.print(board_of(facts))
    text = console.export_text()

    for said in (
        "● trouble",
        "plan_proposal.v1",
        "default",
        "claude",
        "3:30 s",
        "unknown profile 4",
    ):
        assert said in text, text


def test_data_say_the_same_for_programs() -> None:
    facts = facts_of("result/dep_bump", "attempt/result", lanes=[lane(None)])
    data: dict[str, Any] = dict(as_data(facts))

    assert data["status"] == "green"
    assert data["outcomes"] == dict.fromkeys(ENDINGS, 0) | {"mended": 1}
    assert data["profiles"]["default"]["calls"] == 1
    assert data["lanes"] == [{"lane": 3, "lag": 7, "oldest_ms": None}]
    assert as_data(replace(facts, trouble="x"))["status"] == "red"


def test_a_bar_is_full_and_shows_the_least_of_its_parts() -> None:
    counts = dict.fromkeys(ENDINGS, 0)
    drawn = bar(counts | {"first": 10_000, "dead": 1})

    assert len(drawn.plain) == len(bar(counts).plain) == 24
    assert "red" in {str(span.style) for span in drawn.spans}
    assert course([0, 1, 8]) == " ▁█"
