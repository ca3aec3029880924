"""A transactional producer with the interface and the manners of aiokafka's."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.errors import (
    ConcurrentTransactions,
    IllegalOperation,
    KafkaConnectionError,
    KafkaError,
    ProducerFenced,
)

from answerbus.client.transactional_producer import RenewsEpoch
from services.worker.adapters.kafka.shard import LOG_APPEND_TIME
from tests.simulation.cluster import Cluster, Sent, Unanswered
from tests.simulation.log import Headers
from tests.simulation.process import CURRENT
from tests.storms.proxy import Api


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What is told of a record that was appended."""

    timestamp: int
    timestamp_type: int = LOG_APPEND_TIME


T = TypeVar("T")
Waiting = tuple[Sent, "asyncio.Future[Acknowledged]"]
RETRY_S = 0.02
RECORDS_MAX = 3  # of a batch: few, so that batches are full now and then


class SimBatch:
    """What `create_batch` gives: records for one partition."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None, Headers]] = []

    def append(
        self, *, timestamp: int, key: bytes, value: bytes | None, headers: Any
    ) -> int | None:
        """None if there is no room."""
        if len(self.records) == RECORDS_MAX:
            return None
        self.records.append((key, value, _frozen(headers)))
        return timestamp


class SimProducer:
    """Sends are gathered and go out together; a commit waits for them, also for those that failed.

    A record that the broker refused fails on its own future alone, and the commit succeeds
    without it: that is what aiokafka does. `unanswered` says that a request was asked again.
    """

    unanswered = False

    def __init__(self, *, cluster: Cluster, transactional_id: str | None = None, **_: Any) -> None:
        self._cluster, self._id = cluster, transactional_id
        self._epoch = -1
        self._sent: list[Waiting] = []
        self._flushing: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._is_fatal = self._is_stopped = False
        self._added: set[tuple[str, int]] = set()  # partitions of the transaction
        self._is_empty = True  # then its end is not sent
        self.has_fenced = False  # its first request for an epoch has arrived
        self._batches = count()  # their numbers
        self._found: dict[str, int] = {}  # topics of others, with their partitions
        self.process = CURRENT.get()

    async def start(self) -> None:
        cluster = self._cluster
        if self._id is not None:
            cluster.running.append(self)
        if not cluster.reaches(self.process):
            raise KafkaConnectionError("no broker")
        if self._id is not None:
            id_ = self._id
            await cluster.connect()
            act = partial(cluster.initialize, id_, self)
            self._epoch = await self._request(Api.INIT_PRODUCER_ID, act)

    async def partitions_for(self, topic: str) -> set[int]:
        """Asked once; afterwards it is known."""
        if topic not in self._found:
            cluster = self._cluster
            self._found[topic] = await cluster.ask(lambda: cluster.partitions_of(topic))
        return set(range(self._found[topic]))

    async def missing(self, topics: Sequence[str]) -> str | None:
        return None

    async def begin_transaction(self) -> None:
        assert not self._is_fatal, "after a fatal error nothing can begin"
        self._added.clear()
        self._is_empty = True

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = 0,
        headers: Any = (),
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[Acknowledged]:
        place = self._cluster.place_of(topic, key) if partition is None else partition
        return self._send([(topic, place, key, value, _frozen(headers))])

    def create_batch(self) -> SimBatch:
        return SimBatch()

    async def send_batch(
        self, batch: SimBatch, topic: str, *, partition: int
    ) -> asyncio.Future[Acknowledged]:
        return self._send([(topic, partition, *record) for record in batch.records])

    def _send(self, records: list[Sent]) -> asyncio.Future[Acknowledged]:
        if self._is_fatal or self._is_stopped:
            raise IllegalOperation
        future: asyncio.Future[Acknowledged] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_on_done)
        self._sent += [(record, future) for record in records]
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush())
        return future

    async def send_offsets_to_transaction(
        self, offsets: dict[TopicPartition, int], group_id: str
    ) -> None:
        ((place, offset),) = offsets.items()
        mine, cluster = (str(self._id), self._epoch), self._cluster
        await self._call(Api.ADD_OFFSETS, partial(cluster.add_group, *mine))
        act = partial(cluster.set_offset, *mine, place.partition, offset)
        await self._call(Api.TXN_OFFSET_COMMIT, act)
        self._is_empty = False

    async def commit_transaction(self) -> None:
        if self._flushing:
            await asyncio.wait([self._flushing])
        if self._is_empty:
            return
        act = partial(self._cluster.end, str(self._id), self._epoch)
        self._ending = asyncio.create_task(self._call(Api.END_TXN, act))
        self._ending.add_done_callback(_on_done)
        await asyncio.shield(self._ending)  # aiokafka goes on with a commit that was given up

    async def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            if self in self._cluster.running:
                self._cluster.running.remove(self)
            for task in (self._flushing, self._ending):
                if task and not task.done():
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait([task])
            await asyncio.sleep(0.001)

    async def _flush(self) -> None:
        while self._sent:
            batch, self._sent = self._sent, []
            by_leader: defaultdict[int, list[Waiting]] = defaultdict(list)
            for record, future in batch:
                by_leader[self._cluster.leader(*record[:2])].append((record, future))
            await self._add_partitions({record[:2] for record, _ in batch})
            await asyncio.gather(*map(self._deliver, by_leader.values()))

    async def _add_partitions(self, places: set[tuple[str, int]]) -> None:
        """What goes wrong here is told by the records that follow."""
        if self._id is None or places <= self._added:
            return
        act = partial(self._cluster.add_partitions, self._id, self._epoch, places)
        with suppress(KafkaError):
            await self._request(Api.ADD_PARTITIONS, act)
        self._added |= places
        self._is_empty = False

    async def _deliver(self, batch: list[Waiting]) -> None:
        """To one broker, in a request of its own."""
        sent = [record for record, _ in batch]
        appended_at = 0
        try:
            appended_at, errors = await self._produced(sent)
        except KafkaError as error:
            errors = [error] * len(batch)
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), failure in zip(batch, errors, strict=True):
            if failure is not None and not future.done():  # given up by the task that waited
                future.set_exception(failure)
        for _, future in batch:
            if not future.done():
                future.set_result(Acknowledged(appended_at))

    async def _produced(self, sent: list[Sent]) -> tuple[int, list[KafkaError | None]]:
        act = partial(self._produce, self._epoch, next(self._batches), sent)
        if self._id is None:
            return await self._cluster.ask(act)
        return await self._request(Api.PRODUCE, act)

    def _produce(
        self, epoch: int, number: int, sent: list[Sent]
    ) -> tuple[int, list[KafkaError | None]]:
        cluster = self._cluster
        errors = cluster.produce(self._id, epoch, sent, number)
        return int(cluster.clock.now().timestamp() * 1000), errors

    async def _call(self, api: Api, act: Callable[[], None]) -> None:
        try:
            await self._request(api, act)
        except ProducerFenced:
            self._is_fatal = True
            raise

    async def _request(self, api: Api, act: Callable[[], T]) -> T:
        """As aiokafka does, until there is an answer."""
        while True:
            try:
                return await self._cluster.ask(partial(self._cluster.take, api, str(self._id), act))
            except Unanswered:
                self.unanswered |= api is not Api.INIT_PRODUCER_ID


class SimTransactionalProducer(RenewsEpoch, SimProducer):
    """With what the product adds to aiokafka's."""

    async def renew_epoch(self) -> None:
        mine, cluster = (str(self._id), self._epoch), self._cluster
        await self._request(Api.END_TXN, partial(cluster.abort, *mine))
        while True:
            try:
                act = partial(cluster.renew, *mine)
                self._epoch = await self._request(Api.INIT_PRODUCER_ID, act)
            except ConcurrentTransactions:
                await asyncio.sleep(RETRY_S)
            else:
                return


def _frozen(headers: Any) -> Headers:
    return tuple((name, content) for name, content in headers or ())


def _on_done(future: "asyncio.Future[Any]") -> None:
    """Not everyone waits, and nobody is to be told of that."""
    if not future.cancelled():
        future.exception()
