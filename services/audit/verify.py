"""Reads ledger, terminals and attempts, one partition after the other, and has them verified."""

import asyncio
import re
from collections.abc import Callable, Collection

from answerbus.client.bus import Bus
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEDGER, REFUSALS, RESULTS, RETRIES, Topic
from services.reading.reader import Reader, reading
from services.reading.stored import Stored
from services.story.claims import Claims
from services.story.verification import Verification, Verified

PRIVATE = (LEDGER, RETRIES)
TERMINALS = (RESULTS, REFUSALS, DEAD_LETTERS)
LOOKS_AGAIN_MAX = 3  # the end of a transaction may be visible in one topic a moment before another
LOOK_AGAIN_S = 1.0
_OF_A_PLACE = re.compile(r"-\d+-\d+\.dead-letter\Z")  # such a letter may stand in any partition

Progress = Callable[[int, int], None]


async def verify(bus: Bus, workflow_id: str | None, progress: Progress) -> Verified:
    """All accounts, or those of a workflow; `progress` is told (records read, of about how many).

    Holds what is known of the accounts of one partition at a time, and the ids of all replays.
    Raises BusUnavailable.
    """
    total = Verified()
    async with reading(bus, (*PRIVATE, *TERMINALS, ATTEMPTS), workflow_id=workflow_id) as reader:
        told = _Told(progress, await reader.left())
        for partition in reader.partitions:
            total.add(await _partition(reader, partition, workflow_id, told))
        await _replays(reader, total, whole=workflow_id is None)
    return total


async def _replays(reader: Reader, total: Verified, *, whole: bool) -> None:
    """Note the replays that no operator made; what was made meanwhile is read before."""
    for _ in range(LOOKS_AGAIN_MAX):
        if not any(total.replays.unmade()):
            return
        await asyncio.sleep(LOOK_AGAIN_S)
        claims = Claims()
        async for batch in reader.to_end((DEAD_LETTERS,)):
            for stored in batch:
                claims.take(stored)
        total.replays.made |= claims.replays.made
    for (letter_id, _), found in total.replays.unmade():
        if whole or not _OF_A_PLACE.search(letter_id):
            total.breaks.append(found)


class _Told:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._read = progress, total, 0
        progress(0, total)

    def more(self, count: int) -> None:
        self._read += count
        self._progress(self._read, max(self._total, self._read))


async def _partition(
    reader: Reader, partition: int, workflow_id: str | None, told: _Told
) -> Verified:
    verification = Verification(cut=await reader.cut(partition), workflow_id=workflow_id)

    async def read(topics: Collection[Topic], take: Callable[[Stored], None]) -> None:
        async for batch in reader.to_end(topics, partition):
            for stored in batch:
                take(stored)
            told.more(len(batch))

    await read(PRIVATE, verification.claim)
    await read(TERMINALS, verification.claim)
    await read((ATTEMPTS,), verification.attempt)
    for _ in range(LOOKS_AGAIN_MAX):
        if verification.is_settled():
            break
        await asyncio.sleep(LOOK_AGAIN_S)
        await read((ATTEMPTS,), verification.attempt)
    return verification.end()
