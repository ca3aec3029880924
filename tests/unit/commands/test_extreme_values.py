"""What commands print, while events hold the largest, earliest and strangest values that decode."""

import time
from collections.abc import Iterator
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from answerbus.broker_time import moment
from services.commands.replay.views import (
    dead_again_lines,
    dead_letter_lines,
    group_data,
    groups_lines,
    status_data,
    status_table,
)
from services.commands.terminal.timeline_rows import bars, timeline_rows
from services.commands.terminal.top_board import as_data as top_data
from services.commands.terminal.top_board import board_of
from services.commands.top import facts_of
from services.commands.workflow import contents, runs_of
from services.console.tasks.feed import Feed
from services.console.tasks.polling import Poller
from services.console.views.waterfall import waterfall
from services.operators.dead_letters.groups import BY_DEFAULT, Key, first_groups, members
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.records.decoded import decoded
from services.operators.records.event_data import as_data as event_data
from services.operators.records.event_line import line_of as event_line
from services.operators.records.summary import summarize
from services.operators.runs.rendering import as_data as run_data
from services.operators.runs.rendering import tree_of
from services.operators.timeline.rendering import as_data as entry_data
from services.operators.timeline.rendering import line_of as entry_line
from services.operators.timeline.timeline import timeline
from services.text.escaping import json_line
from tests.unit.console.context import NOWHERE
from tests.unit.operators.extreme_examples import EXTREMES, Extreme, extreme_records
from tests.unit.operators.stored_examples import NOON_MS

pytestmark = pytest.mark.wide

NOW = moment(NOON_MS)


CASES = {
    **{name: ("UTC", extreme) for name, extreme in EXTREMES.items()},
    **{
        f"{name}, {zone}": (zone, extreme)
        for name, extreme in EXTREMES.items()
        if extreme.time
        for zone in ("Pacific/Kiritimati", "Pacific/Honolulu")  # far before and after UTC
    },
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def extreme(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Extreme]:
    """While this machine is in a zone."""
    zone, extreme = request.param
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    yield extreme
    monkeypatch.undo()
    time.tzset()


def printed(*parts: RenderableType) -> str:
    """In a terminal, and without an end of the line in it, such as in a file."""
    text = ""
    for width in (80, 120):
        out = StringIO()
        console = Console(file=out, force_terminal=True, width=width)
        for part in parts:
            console.print(part)
        text += out.getvalue()
    return text


def test_workflows(extreme: Extreme) -> None:
    records = extreme_records(extreme)
    for workflow_id in {record.workflow_id for record in map(decoded, records)} - {None}:
        entries = timeline(str(workflow_id), records)
        runs = runs_of(entries)
        picture = waterfall(entries, NOW)

        assert printed(
            *(tree_of(run, show_content=True) for run in runs),
            *(bars(picture, 80) if picture else ()),
            *(entry_line(entry, entries[0].at) for entry in entries),
            *timeline_rows(entries, contents),
        )
        assert all(json_line(run_data(run, show_content=True)) for run in runs)
        assert all(json_line(entry_data(entry, show_content=True)) for entry in entries)


def test_watch(extreme: Extreme) -> None:
    for record in map(decoded, extreme_records(extreme)):
        assert printed(event_line(record))
        assert json_line(event_data(record))


def test_lists_of_dead_letters(extreme: Extreme) -> None:
    dead_letters = DeadLetterIndex()
    for record in extreme_records(extreme):
        dead_letters.take(summarize(record))
    keys = [Key(kind) for kind in BY_DEFAULT]
    groups = first_groups(members(list(dead_letters), keys), "letters", len(dead_letters)).groups

    assert groups
    assert printed(
        *groups_lines(groups, keys), *dead_letter_lines(list(dead_letters), dead_letters)
    )
    status = status_data(list(dead_letters), dead_letters)
    assert printed(status_table(status), *dead_again_lines(status))
    assert all(json_line(group_data(group, keys)) for group in groups)


def test_top(extreme: Extreme) -> None:
    feed = Feed(NOWHERE)
    for record in extreme_records(extreme):
        feed.state.take(record)
    facts = facts_of(feed, Poller(NOWHERE, "group", ()), max(NOON_MS, extreme.at_ms))

    assert printed(board_of(facts))
    assert json_line(top_data(facts))
