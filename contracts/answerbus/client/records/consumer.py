"""aiokafka's consumer, made robust: no record can stop it."""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.consumer.fetcher import READ_UNCOMMITTED, Fetcher, FetchResult, OffsetResetStrategy
from aiokafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NoError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest

from answerbus.client.bootstrap import check_offsets, share_start
from answerbus.client.records.batch import Record
from answerbus.client.records.partition import PartitionRecords
from answerbus.client.records.poll_time_budget import UNPACKED_BYTES_MAX, PollTimeBudget
from answerbus.client.records.unreadable import Unreadable

NOTICE_EVERY_S = 60.0  # for each partition
# Without a byte of an answer, beyond the time that a broker may wait for records. aiokafka waits
# 40 s, while a cluster replaces a frozen broker after some seconds.
SILENCE_S = 10.0
SILENCE_S_MAX = 40.0  # of a broker that was silent before, and may only be slow
AGAIN_S = 0.1  # until a broker that gave an error is asked again, or the one that leads by then
LEADER_TRIES = 5

_log = logging.getLogger(__name__)


class UnreadableLog:
    """Counts what was skipped; `counts` has the total of each topic."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._due: dict[tuple[str, int], float] = {}
        self._suppressed: dict[tuple[str, int], int] = {}

    def report(self, found: Unreadable) -> None:
        """Count it, and say so if the partition has not been spoken of for a while."""
        self.counts[found.topic] = self.counts.get(found.topic, 0) + 1
        place, now = (found.topic, found.partition), time.monotonic()
        if now < self._due.get(place, now):
            self._suppressed[place] = self._suppressed.get(place, 0) + 1
            return
        self._due[place] = now + NOTICE_EVERY_S
        suppressed = self._suppressed.pop(place, 0)
        more = f", and {suppressed:,} before it" if suppressed else ""
        _log.warning("a record cannot be read%s: %s", more, found)


RECORDS_PER_POLL_MAX: Final = 500  # where the caller does not say
_LATEST: Final = OffsetResetStrategy.LATEST
_WAIT_MS: Final = 60_000  # for one record, and then again
_ANSWERED: Final = {  # by aiokafka's fetcher
    error.errno
    for error in (
        NoError,
        NotLeaderForPartitionError,
        OffsetOutOfRangeError,
        TopicAuthorizationFailedError,
        UnknownTopicOrPartitionError,
    )
}


class RecordConsumer(AIOKafkaConsumer):  # type: ignore[misc] # aiokafka has no types
    """Gives each record that can be read, and an Unreadable for what cannot.

    aiokafka raises on a batch that it cannot parse, again and again and for all partitions, and
    unpacks a batch without a limit. Here its own records of a fetch are replaced, before any is
    parsed, by ours.
    """

    def __init__(
        self, *topics: str, unpacked_bytes_max: int = UNPACKED_BYTES_MAX, **options: Any
    ) -> None:
        self.notices = UnreadableLog()
        self._allowance = PollTimeBudget(unpacked_bytes_max)
        self._fetching: Fetcher | None = None
        super().__init__(*topics, **{"max_poll_records": RECORDS_PER_POLL_MAX, **options})
        share_start(self._client)
        check_offsets(self._client)

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """See aiokafka. Of what is left, partitions that gave nothing come first the next time."""
        until = time.monotonic() + timeout_ms / 1000
        while True:
            found = await self._look(places, max_records)
            left_s = until - time.monotonic()
            if found or left_s <= 0:
                return found
            if self._allowance.stopped:
                await asyncio.sleep(0)  # others have their turn
            elif not await self._is_fetched(left_s):
                return {}

    async def getone(self, *places: TopicPartition) -> Record:
        """See aiokafka."""
        while True:
            found = await self.getmany(*places, timeout_ms=_WAIT_MS, max_records=1)
            for (record,) in found.values():
                return record

    async def _look(
        self, places: Sequence[TopicPartition], max_records: int | None
    ) -> dict[TopicPartition, list[Record]]:
        """Fetched records, without waiting.

        What has more than the allowance let it give, and was dropped, is put back: to fetch it
        again at each poll would be most of the work. aiokafka has not run since, so that nothing
        else was fetched for its place.
        """
        self._allowance.renew(len(self.assignment()))
        found: dict[TopicPartition, list[Record]] = await super().getmany(
            *places, max_records=max_records
        )
        waiting = self._fetcher._records  # noqa: SLF001 - see the class
        for records in reversed(self._allowance.stopped):
            waiting[records.place] = FetchResult(
                records.place,
                assignment=self._subscription.subscription.assignment,
                partition_records=records,
                backoff=0,
            )
            waiting.move_to_end(records.place, last=False)
        for place in found:
            if place in waiting:
                waiting.move_to_end(place)
        return found

    async def _is_fetched(self, limit_s: float) -> bool:
        """Wait until something is; raises the fetcher's error."""
        with self._subscription.fetch_context():
            waiter = self._fetcher._create_fetch_waiter()  # noqa: SLF001 - see the class
            done, _ = await asyncio.wait([waiter], timeout=limit_s)
        if not done:
            waiter.cancel()
            return False
        waiter.result()
        return not self._closed

    def leader_of(self, place: TopicPartition) -> int | None:
        """The leader of a partition, by the newest metadata: -1 if none does, None if unknown."""
        leader: int | None = self._client.cluster.leader_for_partition(place)
        return leader

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to any broker at the moment."""
        return any(one.connected() for one in self._client._conns.values())  # noqa: SLF001

    async def without_leader(self, places: Collection[TopicPartition]) -> set[TopicPartition]:
        """The partitions that have no leader now; also of topics that are not read yet."""
        cluster = await self._client.fetch_all_metadata()
        return {place for place in places if cluster.leader_for_partition(place) == -1}

    async def high_watermarks(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of partitions, with what open transactions still hide.

        aiokafka's `end_offsets` ends where the consumer's own isolation level does. Leaders that
        have just changed are looked for; raises after LEADER_TRIES.
        """
        for _ in range(LEADER_TRIES - 1):
            try:
                return await self._high_watermarks(places)
            except KafkaError as error:
                if not error.retriable:
                    raise
            await self._client.force_metadata_update()
            await asyncio.sleep(AGAIN_S)
        return await self._high_watermarks(places)

    async def _high_watermarks(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for leader, led in self._by_leader(places).items():
            asked = [(topic, [(number, _LATEST) for number in led[topic]]) for topic in led]
            answer = await self._client.send(leader, OffsetRequest(-1, READ_UNCOMMITTED, asked))
            for topic, partitions in answer.topics:
                for number, code, _, offset, *_ in partitions:
                    if code:
                        raise for_code(code)
                    found[TopicPartition(topic, number)] = int(offset)
        return found

    def _by_leader(self, places: Sequence[TopicPartition]) -> dict[int, dict[str, list[int]]]:
        """The numbers of the partitions of each topic: a leader is asked once for all."""
        found: dict[int, dict[str, list[int]]] = {}
        for place in places:
            leader = self.leader_of(place)
            if leader is None or leader < 0:
                raise LeaderNotAvailableError
            found.setdefault(leader, {}).setdefault(place.topic, []).append(place.partition)
        return found

    @property
    def _fetcher(self) -> Any:
        return self._fetching

    @_fetcher.setter
    def _fetcher(self, fetcher: Fetcher | None) -> None:
        """The base class sets it when it starts, before anything is fetched."""
        self._fetching = fetcher
        if fetcher is not None:
            _Replacing(fetcher, self._allowance, self.notices)


async def is_behind(consumer: RecordConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether the consumer has not read all of these partitions up to there."""
    return any([await consumer.position(place) < end for place, end in ends.items()])


class _Silence:
    """Closes the connection to a broker that sends nothing of its answer within the limit."""

    def __init__(self, client: Any, node_id: int, limit_s: float) -> None:
        self._client, self._limit_s = client, limit_s
        self._place = node_id, ConnectionGroup.DEFAULT
        self.was_too_long = False
        self._wait(received=0)

    def _wait(self, received: int) -> None:
        self.timer = asyncio.get_running_loop().call_later(self._limit_s, self._look, received)

    def _look(self, before: int) -> None:
        connection = self._client._conns.get(self._place)  # noqa: SLF001 - see RecordConsumer
        if connection is None or not connection.connected():
            self._wait(received=0)  # it is connected to
            return
        received = len(connection._reader._buffer)  # noqa: SLF001 - of an answer that is not whole
        if received > before:
            self._wait(received)
        else:
            self.was_too_long = True
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)


class _Replacing:
    """Stands between a fetcher and its client, to see the bytes that were fetched."""

    def __init__(self, fetcher: Fetcher, allowance: PollTimeBudget, notices: UnreadableLog) -> None:
        self._fetcher, self._client = fetcher, fetcher._client  # noqa: SLF001 - see RecordConsumer
        self._wait_s = fetcher._fetch_max_wait_ms / 1000  # noqa: SLF001
        self._silence_s: dict[int, float] = {}  # by broker, of those that were silent
        self._process = fetcher._proc_fetch_request  # noqa: SLF001
        self._allowance, self._notices = allowance, notices
        self._answers: dict[int, Any] = {}  # by the identity of the request
        fetcher._client = self  # noqa: SLF001
        fetcher._proc_fetch_request = self._fetch  # noqa: SLF001

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def send(self, node_id: int, request: Any) -> Any:
        """Sends as the client does, but gives up a silent broker; keeps the answer to a fetch."""
        silence_s = self._silence_s.pop(node_id, SILENCE_S)
        silence = _Silence(self._client, node_id, self._wait_s + silence_s)
        try:
            answer = await self._client.send(node_id, request)
        finally:
            silence.timer.cancel()
            if silence.was_too_long:
                self._silence_s[node_id] = min(2 * silence_s, SILENCE_S_MAX)
        if isinstance(request, FetchRequest):
            self._answers[id(request)] = answer
        return answer

    async def _fetch(self, assignment: Any, node_id: int, request: FetchRequest) -> bool:
        """As the fetcher does; between the answer and our turn nothing else runs."""
        try:
            has_news: bool = await self._process(assignment, node_id, request)
            answer = self._answers.get(id(request))
        finally:
            self._answers.pop(id(request), None)
        has_failed = False
        for topic, partitions in answer.topics if answer else ():
            for partition, code, *_, fetched in partitions:
                self._replace(TopicPartition(topic, partition), fetched)
                has_failed |= code not in _ANSWERED
        if has_failed:  # such as of a disk: another broker may lead it by now
            self._client.force_metadata_update()
            with suppress(asyncio.CancelledError):  # who closes the fetcher waits for this task
                await asyncio.sleep(AGAIN_S)
        return has_news

    def _replace(self, place: TopicPartition, fetched: bytes) -> None:
        result = self._fetcher._records.get(place)  # noqa: SLF001
        if not isinstance(result, FetchResult):
            return
        theirs = result._partition_records  # noqa: SLF001
        if theirs is None or isinstance(theirs, PartitionRecords):
            return
        theirs._records_iterator = None  # noqa: SLF001 - else it keeps itself, and what was fetched
        result._partition_records = PartitionRecords(  # noqa: SLF001
            place,
            fetched,
            theirs.next_fetch_offset,
            theirs._aborted_transactions,  # noqa: SLF001
            theirs._isolation_level,  # noqa: SLF001
            self._allowance,
            self._notices.report,
        )
