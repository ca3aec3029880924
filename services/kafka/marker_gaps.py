"""Finds partitions where only markers of transactions are left to read, which count as lag."""

import asyncio
from collections.abc import Mapping

from aiokafka import TopicPartition

from answerbus.client.bus import Bus

LAG_MAX = 16  # offsets; with more there are records, or transactions in great number
LOOK_S = 3.0
_POLL_MS = 250

Gap = tuple[int, int]  # the offset to read next, and the end


async def marker_gaps(bus: Bus, gaps: Mapping[TopicPartition, Gap]) -> frozenset[TopicPartition]:
    """The partitions whose gap, of at most LAG_MAX offsets, holds no committed record.

    Raises BusUnavailable.
    """
    waiting = {place for place, (begin, end) in gaps.items() if 0 < end - begin <= LAG_MAX}
    if not waiting:
        return frozenset()
    found: set[TopicPartition] = set()
    async with bus.running(bus.consumer()) as consumer:
        consumer.assign([*waiting])
        for place in waiting:
            consumer.seek(place, gaps[place][0])
        loop = asyncio.get_running_loop()
        until = loop.time() + LOOK_S
        with bus.explained():
            while waiting and loop.time() < until:
                polled = await consumer.getmany(*waiting, timeout_ms=_POLL_MS, max_records=1)
                waiting -= polled.keys()
                found |= {p for p in waiting if await consumer.position(p) >= gaps[p][1]}
                waiting -= found
    return frozenset(found)
