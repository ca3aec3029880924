"""Follows the topics for requests that shadows are to be asked; it delays no worker."""

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain

from answerbus.client.bus import Bus
from answerbus.compared import Compared
from answerbus.envelope import decode
from answerbus.topics import (
    ATTEMPTS,
    COMPARISONS,
    OUTCOMES,
    REQUESTS,
    Topic,
)
from services.operators.adapters.comparison_writer import writing_comparisons
from services.operators.adapters.picker import picking
from services.operators.adapters.reader import Reader, reading
from services.operators.adapters.shadow import AT_ONCE, Shadow
from services.operators.comparisons.live_draw import OPEN_MAX, LiveDraw, SeenRecord
from services.operators.comparisons.shadow_day import PerDay, is_of_day
from services.operators.records.summary import summarize

FOLLOWED = (*OUTCOMES, ATTEMPTS, REQUESTS)
LOOK_S = 1.0  # between two looks at the topics
END_S = 10.0  # calls under way are given so long when it is stopped
_CLOCKS_APART = timedelta(hours=1)  # ours and Kafka's

_log = logging.getLogger(__name__)


async def asked_on(bus: Bus, day: date, originals: Collection[str]) -> Mapping[str, PerDay]:
    """The topic's entries of that day, by the profile with the shadow. Raises BusUnavailable."""
    found = {name: PerDay() for name in originals}
    since = datetime.combine(day, time.min, UTC) - _CLOCKS_APART
    async with reading(bus, (COMPARISONS,), since=since) as reader:
        async for stored in reader.records():
            event = decode(stored.value, stored.headers)
            if isinstance(event, Compared):
                for name, of_day in found.items():
                    if is_of_day(event.comparison, name, day):
                        of_day.take(event)
    return found


async def shadow(
    bus: Bus, shadows: Mapping[str, Shadow], draw: LiveDraw, stop: asyncio.Event
) -> None:
    """Ask what is answered from now on, until it is stopped. Raises BusUnavailable."""
    limit = asyncio.timeout(None)
    try:
        async with (
            reading(bus, FOLLOWED, from_start=False) as reader,
            picking(bus, FOLLOWED) as picker,
            writing_comparisons(bus) as write,
            limit,
            asyncio.TaskGroup() as group,
        ):
            _log.info("following the topics of %s", bus.prefix)
            for one in shadows.values():
                for _ in range(AT_ONCE):
                    group.create_task(one.ask_on(picker.pick_all, write))
            await _follow(reader, draw, shadows, group.create_task(stop.wait()))
            for one in shadows.values():
                one.end()
            limit.reschedule(asyncio.get_running_loop().time() + END_S)
    except* TimeoutError:
        if not limit.expired():
            raise
    except* Exception as errors:
        raise errors.exceptions[0] from None


async def _follow(
    reader: Reader,
    draw: LiveDraw,
    shadows: Mapping[str, Shadow],
    stopped: "asyncio.Task[object]",
) -> None:
    while not stopped.done():
        outcomes = await _read(reader, OUTCOMES, draw)
        attempts = await _read(reader, (ATTEMPTS,), draw)
        requests = await _read(reader, (REQUESTS,), draw)
        for drawn in draw.take(chain(requests, attempts, outcomes)):
            shadows[drawn.profile].put(drawn)
        await asyncio.wait([stopped], timeout=LOOK_S)


async def _read(reader: Reader, topics: Collection[Topic], draw: LiveDraw) -> deque[SeenRecord]:
    """New records since the last call; of too many, the newest."""
    kept = deque[SeenRecord](maxlen=OPEN_MAX)
    async for stored in reader.records(topics):
        if seen := draw.seen(summarize(stored)):
            kept.append(seen)
    return kept
