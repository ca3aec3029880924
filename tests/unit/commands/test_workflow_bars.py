"""A workflow's time as bars of text, and lines with the time since the beginning."""

from datetime import timedelta

import pytest

from services.commands.terminal.timeline_rows import CELLS, bars
from services.commands.watch import Repeats
from services.console.views.waterfall import waterfall
from services.operators.records.event_line import detail_of
from services.operators.timeline.rendering import line_of
from services.operators.timeline.timeline import timeline
from services.worker.core.attempt.reply import TimedOut
from tests.unit.operators.partition import WORKFLOW, Partition


def test_each_request_is_a_line_of_bars_and_the_budget_is_one() -> None:
    partition = Partition()
    partition.ask()
    partition.call(TimedOut(9.0))
    partition.clock += timedelta(seconds=60)
    partition.call()
    entries = timeline(WORKFLOW, partition.stored)
    picture = waterfall(entries, partition.clock)
    assert picture
    first, row, budget = (line.plain for line in bars(picture))

    assert first.startswith("1 min")
    assert row.startswith("r-1 ")
    assert row.count("▒") > CELLS / 2
    assert "2 calls, result" in row
    assert "budget of attempts ▰" in budget
    assert " +0.000 s " in line_of(entries[0], entries[0].at).plain
    retry = next(entry for entry in entries if entry.kind == "retry_request")
    assert detail_of(retry.seen).endswith("(2.0 s ▰▱▱)")


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_line_of_bars_fits_the_terminal(width: int) -> None:
    partition = Partition()
    partition.ask()
    partition.call()
    picture = waterfall(timeline(WORKFLOW, partition.stored), partition.clock)
    assert picture
    _, row, *_ = (line.plain for line in bars(picture, width))

    assert len(row) <= width
    assert "█" in row
    assert "1 call, result" in row


def test_what_says_the_same_is_counted_and_not_shown() -> None:
    repeats = Repeats(is_on=True)
    shown = "".join(text for text in "aababbacdcda" if repeats.is_new(text))

    assert shown == "abcda"
    assert all(Repeats(is_on=False).is_new("a") for _ in range(2))
