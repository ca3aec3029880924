"""How long records have waited, also before this program looked."""

import asyncio
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from services.console.state.request_times import RequestTimes
from services.console.tasks.status_now import _standing_s

NOW_MS = 1_800_000_000_000


async def standing_s(
    written: dict[int, int], committed: int, lag: int, *, ended_ms: int | None = None
) -> float:
    """Of records that were read, by offset, and when they were written; looked at since 1 s."""
    times = RequestTimes()
    for offset, at_ms in written.items():
        times.take(offset, at_ms)
    by_partition = defaultdict(RequestTimes, {0: times})
    since = asyncio.get_running_loop().time() - 1
    results = SimpleNamespace(lag={0: lag}, committed={0: committed}, lagging_since=since)
    state = SimpleNamespace(request_times=by_partition, ended_ms=ended_ms)
    feed, poller = SimpleNamespace(state=state), SimpleNamespace(results=results)
    return _standing_s(cast("Any", feed), cast("Any", poller), NOW_MS)


async def test_what_waited_before_has_waited_since_it_was_written() -> None:
    assert await standing_s({0: NOW_MS - 300_000}, 0, 1) == 300
    assert await standing_s({4: NOW_MS - 900_000, 5: NOW_MS - 300_000}, 5, 1) == 300


@pytest.mark.parametrize(
    ("written", "committed", "ended_ms"),
    [
        ({}, 0, None),  # nothing was read so far
        ({4: NOW_MS - 900_000}, 5, None),  # the record that waits was not read so far
        ({5: NOW_MS - 300_000}, 5, NOW_MS - 1_000),  # another has ended since
    ],
)
async def test_else_it_has_waited_since_it_was_seen(
    written: dict[int, int], committed: int, ended_ms: int | None
) -> None:
    found = await standing_s(written, committed, 1, ended_ms=ended_ms)

    assert 1 <= found < 10
