"""Timestamps of the wire: a moment that UTC cannot hold is a problem of its record, no error."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from answerbus.envelope import Undecodable, decode

EXAMPLES = sorted((Path(__file__).parents[2] / "contracts/examples").rglob("*.json"))
OUTSIDE_UTC = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")  # year 0, year 10,000
TIMESTAMPS = {
    *("at", "since", "until", "updated_at", "started_at", "finished_at", "requested_at"),
    *("expires_at", "called_at", "due_at", "not_before", "deadline", "timestamp"),
}

Place = tuple[str | int, ...]


def timestamps(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where timestamps are in an event."""
    items = value.items() if isinstance(value, dict) else ()
    for name, member in items:
        if name in TIMESTAMPS and isinstance(member, str):
            yield (*place, name)
        yield from timestamps(member, (*place, name))


def changed(event: Any, place: Place, timestamp: str) -> bytes:
    copy = deepcopy(event)
    inner = copy
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = timestamp
    return json.dumps(copy).encode()


@pytest.mark.parametrize("timestamp", OUTSIDE_UTC)
def test_a_moment_that_utc_cannot_hold_is_a_problem_at_its_place(timestamp: str) -> None:
    kinds = set()
    for path in EXAMPLES:
        event = json.loads(path.read_bytes())
        for place in timestamps(event):
            found = decode(changed(event, place, timestamp))

            assert isinstance(found, Undecodable), (path.name, place)
            assert [(one.path, one.code) for one in found.problems] == [
                ("/" + "/".join(map(str, place)), "timestamp_range")
            ]
            kinds.add(event["kind"])
    assert {"cancel", "approval", "tool_call", "toolset", "result", "run", "lane"} <= kinds
