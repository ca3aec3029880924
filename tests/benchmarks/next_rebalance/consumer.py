"""A consumer by librdkafka on the protocol of KIP-848, with the methods that the worker calls."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any

import confluent_kafka
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaConnectionError, KafkaError, for_code
from aiokafka.structs import ConsumerRecord, OffsetAndMetadata
from confluent_kafka import KafkaException

from answerbus.client.records.consumer import RecordConsumer
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.adapters.kafka.subscription import FETCH_BYTES_MAX, PARTITION_FETCH_BYTES_MAX

ASK_S = 10.0
RECORDS_PER_POLL_MAX = 500

Places = Iterable[TopicPartition]


class NextConsumer:
    """Polled in threads; all that its caller sees changes in the event loop.

    The listener is told what was taken away alone, and then all that is there: in the protocol of
    KIP-848 what stays goes on. A prototype, for connections without TLS and passwords.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str],
        group_id: str,
        read_monitor: ReadMonitor | None = None,
        **_of_aiokafka: Any,
    ) -> None:
        given = bootstrap_servers
        servers = given if isinstance(given, str) else ",".join(given)
        self._read_monitor = read_monitor
        self._asked = RecordConsumer(bootstrap_servers=servers, isolation_level="read_committed")
        self._group = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group_id,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.max.bytes": FETCH_BYTES_MAX,
                "message.max.bytes": FETCH_BYTES_MAX,
                "max.partition.fetch.bytes": PARTITION_FETCH_BYTES_MAX,
            }
        )
        self._topic = ""
        self._listener: ConsumerRebalanceListener | None = None
        self._positions: dict[TopicPartition, int] = {}  # of all partitions that are there
        self._seeks: dict[TopicPartition, int] = {}  # not done yet
        self._lock, self._polling, self._is_closed = Lock(), Lock(), False

    def __getattr__(self, name: str) -> Any:
        """Questions about the topic, such as its ends, are asked by a consumer of no group."""
        return getattr(self._asked, name)

    def subscribe(
        self, topics: Sequence[str], listener: ConsumerRebalanceListener, pattern: None = None
    ) -> None:
        assert pattern is None
        (self._topic,), self._listener = topics, listener

    async def start(self) -> None:
        """It is a member once it is polled."""
        self._loop = asyncio.get_running_loop()
        await self._asked.start()
        listed = await asyncio.to_thread(self._group.list_topics, self._topic, ASK_S)
        places = [TopicPartition(self._topic, n) for n in listed.topics[self._topic].partitions]
        self._asked.assign(places)
        self._asked.pause(*places)
        self._group.subscribe([self._topic], on_assign=self._given, on_revoke=self._taken)

    async def stop(self) -> None:
        await asyncio.to_thread(self._close)
        await self._asked.stop()

    def _close(self) -> None:
        with self._polling:
            self._is_closed = True
            self._group.close()

    # What it is given

    async def getmany(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]:
        poll = partial(self._poll, timeout_ms / 1000, max_records or RECORDS_PER_POLL_MAX)
        found = await (self._read_monitor.watched(poll) if self._read_monitor else poll())
        return dict(found)

    async def _poll(self, timeout_s: float, records_max: int) -> Mapping[TopicPartition, Any]:
        found: dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]] = {}
        for one in await asyncio.to_thread(self._polled, timeout_s, records_max):
            place = TopicPartition(one.topic(), one.partition())
            if one.error() is None and place in self._positions and place not in self._seeks:
                found.setdefault(place, []).append(_record(one))
        for place, records in found.items():
            self._positions[place] = records[-1].offset + 1
        return found

    def _polled(self, timeout_s: float, records_max: int) -> list[Any]:
        with self._polling:
            if self._is_closed:
                return []
            for place, offset in [*self._seeks.items()]:
                try:
                    self._group.seek(_place(place, offset))
                except KafkaException:
                    continue  # it is not fetched from yet, or no more
                with self._lock:
                    if self._seeks.get(place) == offset:
                        del self._seeks[place]
            return list(self._group.consume(records_max, timeout_s))

    # Which partitions are there

    def _given(self, _group: Any, places: list[Any]) -> None:
        self._group.incremental_assign(places)
        self._loop.call_soon_threadsafe(self._changed, _ours(places), ())

    def _taken(self, _group: Any, places: list[Any]) -> None:
        self._group.incremental_unassign(places)
        self._loop.call_soon_threadsafe(self._changed, (), _ours(places))

    def _changed(self, given: Collection[TopicPartition], taken: Places) -> None:
        lost = [place for place in taken if place in self._positions]
        for place in lost:
            del self._positions[place]
            with self._lock:
                self._seeks.pop(place, None)
        self._positions |= dict.fromkeys(given, 0)
        assert self._listener
        if lost:
            self._listener.on_partitions_revoked(lost)
        if self._positions:
            self._listener.on_partitions_assigned([*self._positions])

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    # Where it reads

    async def position(self, place: TopicPartition) -> int:
        if place not in self._positions:
            raise IllegalStateError(f"{place} is not there")
        return self._positions[place]

    def pause(self, *places: TopicPartition) -> None:
        with suppress(KafkaException):  # taken away meanwhile
            self._group.pause([_place(place) for place in places])

    def resume(self, *places: TopicPartition) -> None:
        with suppress(KafkaException):
            self._group.resume([_place(place) for place in places])

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Done before the next poll; what was polled before it is given to nobody."""
        self._positions[place] = offset
        with self._lock:
            self._seeks[place] = offset

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Raises KafkaError, also where the group has another member for the partition."""
        places = [_place(place, found.offset) for place, found in offsets.items()]
        await self._answered(partial(self._group.commit, offsets=places, asynchronous=False))

    async def committed(self, place: TopicPartition) -> int | None:
        (found,) = await self._answered(partial(self._group.committed, [_place(place)], ASK_S))
        return None if found.offset < 0 else int(found.offset)

    async def _answered(self, ask: Any) -> list[Any]:
        try:
            found = await asyncio.to_thread(ask)
        except KafkaException as failure:
            raise _error(failure.args[0]) from failure
        for place in found:
            if place.error is not None:
                raise _error(place.error)
        return list(found)


def _place(place: TopicPartition, offset: int = confluent_kafka.OFFSET_INVALID) -> Any:
    return confluent_kafka.TopicPartition(place.topic, place.partition, offset)


def _ours(places: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(place.topic, place.partition) for place in places]


def _error(error: Any) -> KafkaError:
    """A broker's errors have the same codes everywhere; those of the client are negative."""
    made = for_code(error.code()) if error.code() > 0 else KafkaConnectionError
    found: KafkaError = made(str(error))
    return found


def _record(one: Any) -> "ConsumerRecord[bytes, bytes]":
    kind, timestamp = one.timestamp()
    key, value = one.key(), one.value()
    return ConsumerRecord(
        topic=one.topic(),
        partition=one.partition(),
        offset=one.offset(),
        timestamp=timestamp,
        timestamp_type=1 if kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME else 0,
        key=key,
        value=value,
        checksum=None,
        serialized_key_size=-1 if key is None else len(key),
        serialized_value_size=-1 if value is None else len(value),
        headers=tuple(one.headers() or ()),
    )
