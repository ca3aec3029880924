"""The board of `answerbus top`: status, bars and data from what was folded."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from typing import Any

from rich.console import Console

from services.commands.terminal.top_board import (
    BAR_CELLS,
    MINUTES,
    WHYS_SHOWN,
    TopFacts,
    as_data,
    bar,
    board_of,
    course,
)
from services.console.figures.outcome_charts import ENDINGS
from services.console.state.board import Board
from services.console.views.lane_grid import LaneCell
from services.console.views.status import BusStatus, ProfileStatus, StatusFacts, bus_status
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import NOON_MS, stored


def facts_of(*examples: str, **more: Any) -> TopFacts:
    board = Board()
    for example in examples:
        board.take(summarize(stored(example)))
    return TopFacts(board.window(NOON_MS, MINUTES, MINUTES), board.schema_labels, lag=0, **more)


def lane(age_ms: int | None) -> LaneCell:
    return LaneCell(3, "w", 7, 1, age_ms, 0, NOON_MS)


def red() -> BusStatus:
    """Of a profile whose provider is away, and a worker that does not answer."""
    away = ProfileStatus("claude", "no_connection", "cannot connect", NOON_MS - 60_000, 4, None)
    facts = StatusFacts(NOON_MS, profiles=[away], workers=2, silent_workers=["http://w:1: away"])
    return bus_status(facts)


def test_the_board_names_contracts_profiles_lanes_and_dead_letters() -> None:
    facts = facts_of(
        *("result/dep_bump", "attempt/result", "dead_letter/unknown_profile"),
        lanes=[lane(30_000)],
        open_dead_letters=Counter({"unknown_profile": 4}),
        unhealthy={"claude": "no connection"},
        status=red(),
    )
    console = Console(width=150, record=True, file=StringIO())
    console.print(board_of(facts))
    text = console.export_text()

    for message in (
        *(f"● {finding.text}" for finding in red().findings),
        "  cannot connect",
        "  http://w:1: away",
        "plan_proposal.v1",
        "default",
        "claude",
        "3:30 s",
        "4 × unknown profile",
    ):
        assert message in text, text


def test_the_figures_of_a_narrow_terminal_are_whole() -> None:
    """Names of contracts become shorter, and no count or amount of money does."""
    facts = facts_of("result/dep_bump", "refusal/by_model", "dead_letter/unknown_profile")
    console = Console(width=54, record=True, file=StringIO())
    console.print(board_of(facts))
    header = next(line for line in console.export_text().splitlines() if "used" in line[40:])

    assert header.split()[1:] == ["retried", "refused", "dead", "p50", "p95", "used"]


def test_data_say_the_same_for_programs() -> None:
    facts = facts_of("result/dep_bump", "attempt/result", lanes=[lane(None)])
    data: dict[str, Any] = dict(as_data(facts))

    assert data["status"] == "green"
    assert data["outcomes"] == dict.fromkeys(ENDINGS, 0) | {"mended": 1}
    assert data["profiles"]["default"]["calls"] == 1
    assert data["lanes"] == [
        {
            "lane": 3,
            "lag": 7,
            "oldest_ms": None,
            "state": "",
            "halt": None,
            "why": "",
            "waits_for": "",
        }
    ]
    assert data["reasons"] == []
    worse = as_data(replace(facts, status=red()))
    assert worse["status"] == "red"
    assert worse["reasons"] == [finding.text for finding in red().findings]


def test_a_bar_is_full_and_shows_the_least_of_its_parts() -> None:
    counts = dict.fromkeys(ENDINGS, 0)
    drawn = bar(counts | {"first": 10_000, "dead": 1})

    assert len(drawn.plain) == len(bar(counts).plain) == 24
    assert "red" in {str(span.style) for span in drawn.spans}
    assert course([0, 1, 8]) == " ▁█"


def test_on_a_narrow_terminal_names_and_numbers_are_whole_and_the_bar_is_shorter() -> None:
    facts = facts_of("result/dep_bump", "refusal/by_model", "dead_letter/unknown_profile")
    console = Console(width=72, record=True, file=StringIO())
    console.print(board_of(facts))
    text = console.export_text()

    for message in ("contract", "plan_proposal.v1", "refused", "dead", "p50", "p95", "used"):
        assert message in text
    assert "…" not in text
    assert "unvalidated" not in text  # no contract has any
    (row,) = [line for line in text.splitlines() if line.startswith("plan_proposal.v1")]
    assert 0 < row.count("█") < BAR_CELLS
    parts = {colour for text, colour in _segments(facts, 72) if "█" in text}
    assert parts == {"cyan", "magenta", "red"}  # each ending is seen, however short the bar


def test_dead_letters_for_other_reasons_are_counted_too() -> None:
    whys = Counter({f"rejected: {400 + n}": 10 - n for n in range(WHYS_SHOWN + 2)})
    facts = facts_of("result/dep_bump", open_dead_letters=whys)
    console = Console(width=400, record=True, file=StringIO())
    console.print(board_of(facts))

    assert f"open dead letters {whys.total()}: " in console.export_text(clear=False)
    assert ", 9 for other reasons" in console.export_text()


def test_dead_letters_are_counted_by_why_with_paths_for_people_and_without_for_programs() -> None:
    whys = {"invalid: json_text at /actions/0/args": 3, "invalid: json_text at /actions/1/args": 1}
    facts = facts_of("result/dep_bump", open_dead_letters=Counter(whys))
    console = Console(width=150, record=True, file=StringIO())
    console.print(board_of(facts))

    message = (
        "open dead letters 4: 3 × /actions/0/args is not JSON, 1 × /actions/1/args is not JSON"
    )
    assert message in console.export_text()
    assert as_data(facts)["open_letters"] == {"invalid: json_text": 4}


def _segments(facts: TopFacts, width: int) -> Iterator[tuple[str, str]]:
    """What is written in a colour, and which."""
    console = Console(width=width, file=StringIO(), force_terminal=True)
    for segment in console.render(board_of(facts)):
        if segment.style is not None and segment.style.color is not None:
            yield segment.text, segment.style.color.name
