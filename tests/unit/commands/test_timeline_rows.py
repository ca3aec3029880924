"""What happened to a workflow, as rows that fit a terminal."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from services.commands.terminal.timeline_rows import timeline_rows
from services.operators.records.decoded import decoded
from services.operators.records.event_line import line_of as event_line
from services.operators.timeline.entry import TimelineEntry
from services.operators.timeline.rendering import line_of
from services.operators.timeline.timeline import timeline
from services.worker.core.attempt.reply import TimedOut
from tests.unit.operators.partition import WORKFLOW, Partition


def history() -> Sequence[TimelineEntry]:
    """A request that was answered after a time-out."""
    partition = Partition()
    partition.ask()
    partition.call(TimedOut(9.0))
    partition.clock += timedelta(seconds=2)
    partition.call()
    return timeline(WORKFLOW, partition.stored)


def shown(entries: Sequence[TimelineEntry], width: int, *, content: bool = False) -> list[str]:
    console = Console(file=StringIO(), width=width, force_terminal=True, color_system=None)
    for row in timeline_rows(entries, (lambda _: [Text("an answer")]) if content else None):
        console.print(row)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_request_is_named_once_and_all_rows_fit(width: int) -> None:
    lines = shown(history(), width)

    assert [line.strip() for line in lines].count("r-1") == 1
    assert sum("r-1" in line for line in lines) == 1
    assert all(len(line) <= width for line in lines)
    assert "+0.000 s request" in lines[2]


def test_times_are_of_utc_on_each_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = Partition()
    partition.ask()
    (first,), (stored,) = timeline(WORKFLOW, partition.stored), partition.stored[:1]
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        date, _, row, *_ = shown([first], 120)
        line = line_of(first).plain
        seen = event_line(decoded(stored)).plain
    time.tzset()

    assert date == "2026-11-21 UTC"
    assert row.split()[0] == "10:00:01.000"
    assert line.startswith("2026-11-21 10:00:01.000Z ")
    assert seen.startswith("10:00:01Z ")


def test_a_request_is_named_again_after_another_one() -> None:
    one = history()
    other = [replace(entry, request_id="r-2") for entry in one]
    names = [line for line in shown([*one, *other, *one], 120) if line.strip() in ("r-1", "r-2")]

    assert [name.strip() for name in names] == ["r-1", "r-2", "r-1"]


def test_repeats_are_folded_unless_contents_are_wanted() -> None:
    entries = [history()[0]] * 4
    folded = shown(entries, 120)
    with_contents = shown(entries, 120, content=True)

    assert sum("… the same 3 times more" in line for line in folded) == 1
    assert not any("… the same" in line for line in with_contents)
    assert sum("an answer" in line for line in with_contents) == len(entries)
