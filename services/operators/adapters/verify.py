"""Reads ledger, outcomes and attempts, one partition after the other, and has them verified."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import timedelta

from answerbus.client.bus import Bus
from answerbus.topics import (
    ATTEMPTS,
    DEAD_LETTERS,
    LEDGER,
    OUTCOMES,
    RETRIES,
    STEPS,
    Topic,
)
from services.operators.adapters.reader import Reader, reading
from services.operators.audit.claims import ClaimedSpending
from services.operators.audit.verification import Verification
from services.operators.audit.verified import Verified
from services.operators.records.stored import Stored

PRIVATE = (LEDGER, RETRIES)
LOOKS_AGAIN_MAX = 3  # the end of a transaction may be visible in one topic a moment before another
LOOK_AGAIN_S = 1.0
_OF_A_PLACE = re.compile(r"-\d+-\d+\.dead-letter\Z")  # may be in any partition

Progress = Callable[[int, int], None]


async def verify(
    bus: Bus, workflow_id: str | None, progress: Progress, account_memory: timedelta
) -> Verified:
    """All accounts, or those of a workflow; `progress` gets (records read, of about how many).

    `account_memory` is how long workers know an account after its last event.

    Holds what is known of the accounts of one partition at a time, and the ids of all replays;
    where a move has left accounts in several (`answerbus topics move`), of all of them. Raises
    BusUnavailable.
    """
    total = Verified()
    was_moved = bool((await bus.layout(LEDGER)).earlier)
    topics = (*PRIVATE, *OUTCOMES, ATTEMPTS, *await bus.present(STEPS))
    async with reading(bus, topics, workflow_id=workflow_id) as reader:
        report = _ProgressReport(progress, await reader.left())
        each = [[partition] for partition in reader.partitions]
        for partitions in [reader.partitions] if was_moved else each:
            cut = [await reader.cut(partition) for partition in partitions]
            verification = Verification(
                cut=frozenset[Topic]().union(*cut),
                workflow_id=workflow_id,
                account_memory=account_memory,
            )
            total.add(await _together(reader, partitions, verification, report))
        await _replays(reader, total, whole=workflow_id is None)
    return total


async def _replays(reader: Reader, total: Verified, *, whole: bool) -> None:
    """Note the replays that no operator made; what was made meanwhile is read before."""
    for _ in range(LOOKS_AGAIN_MAX):
        if not any(total.replays.not_published()):
            return
        await asyncio.sleep(LOOK_AGAIN_S)
        claims = ClaimedSpending()
        async for stored in reader.records((DEAD_LETTERS,)):
            claims.take(stored)
        total.replays.made |= claims.replays.made
    for link, found in total.replays.not_published():
        if whole or not _OF_A_PLACE.search(link.dead_letter_id):
            total.breaks.append(found)


class _ProgressReport:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._read = progress, total, 0
        progress(0, total)

    def more(self, count: int) -> None:
        self._read += count
        self._progress(self._read, max(self._total, self._read))


async def _together(
    reader: Reader,
    partitions: Sequence[int],
    verification: Verification,
    report: _ProgressReport,
) -> Verified:
    """The verdict on partitions that share no account with others."""
    for topics in (PRIVATE, OUTCOMES):
        async for stored in _read(reader, topics, partitions, report):
            verification.claim(stored)
    for _ in range(1 + LOOKS_AGAIN_MAX):
        for topic, take in ((ATTEMPTS, verification.attempt), (STEPS, verification.step)):
            async for stored in reader.oldest_first(topic, partitions):
                take(stored)
                report.more(1)
        if verification.is_settled():
            break
        await asyncio.sleep(LOOK_AGAIN_S)
    return verification.end()


async def _read(
    reader: Reader, topics: Collection[Topic], partitions: Sequence[int], report: _ProgressReport
) -> AsyncIterator[Stored]:
    for partition in partitions:
        async for batch in reader.to_end(topics, partition):
            for stored in batch:
                yield stored
            report.more(len(batch))
