"""From Kafka to lanes: what cannot be read, or was overtaken by a seek, leaves no gap."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.errors import ConsumerStoppedError, IllegalStateError

from answerbus.ledger import Watched
from services.settings import KafkaSettings
from services.worker.intake import Inbox, arrival
from services.worker.lane.lane import State
from tests.unit.builders import NOW, TOPIC, body
from tests.unit.lane.virtual import run

A, B = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def record(place: TopicPartition, offset: int, value: bytes | None = b"{}") -> Any:
    return ConsumerRecord(
        topic=place.topic,
        partition=place.partition,
        offset=offset,
        timestamp=int(NOW.timestamp() * 1000),
        timestamp_type=1,
        key=None,
        value=value,
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=0,
        headers=(("x", None),),
    )


class Batches:
    """The records of one fetch; reading on past the last of them fails."""

    def __init__(self, records: list[Any], error: Exception | None = None) -> None:
        self.next_fetch_offset = records[0].offset
        self._error = error
        self._records = iter(records)

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Any:
        for found in self._records:
            self.next_fetch_offset = found.offset + 1
            return found
        if self._error:
            error, self._error = self._error, None
            raise error
        raise StopIteration


@dataclass
class FakeConsumer:
    """Positions, and `getmany` by aiokafka's own code over what was fetched."""

    fetched: dict[TopicPartition, Batches]
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    error: Exception | None = None

    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.positions[place] = offset

    async def position(self, place: TopicPartition) -> int:
        if place not in self.positions:
            raise IllegalStateError
        return self.positions[place]

    async def getmany(self, **_: Any) -> Mapping[TopicPartition, list[Any]]:
        if self.error:
            raise self.error
        fetcher = SimpleNamespace(
            _subscriptions=SimpleNamespace(reassignment_in_progress=False),
            _records={place: self._result(place) for place in self.fetched},
            _notify=lambda _: None,
            _wait_consume_future=None,
        )
        found: Mapping[TopicPartition, list[Any]] = await Fetcher.fetched_records(fetcher, ())
        return found

    def _result(self, place: TopicPartition) -> FetchResult:
        def consumed_to(offset: int) -> None:
            self.positions[place] = offset

        state = SimpleNamespace(consumed_to=consumed_to)
        result = FetchResult(
            place,
            assignment=SimpleNamespace(active=True, state_value=lambda _: state),
            partition_records=self.fetched[place],
            backoff=0,
        )
        result.check_assignment = lambda _: True
        return result


class FakeLane:
    """Notes what is delivered."""

    def __init__(self, position: int) -> None:
        self.state = State.OPEN
        watermark, suspects = SimpleNamespace(position=position), SimpleNamespace(record=None)
        self.books = SimpleNamespace(watermark=watermark, suspects=suspects)
        self.is_careful = False
        self.delivered: list[int] = []
        self.losses: list[BaseException] = []
        self.on_loss = self.losses.append

    def fail_at(self, what: Watched, error: Exception) -> None:
        assert what.what == "record"
        self.on_loss(error)

    def deliver(self, arrivals: list[Any]) -> None:
        self.delivered.extend(one.place.offset for one in arrivals)


def inbox(consumer: FakeConsumer, **lanes: FakeLane) -> Inbox:
    made = Inbox(KafkaSettings(), TOPIC, "group")
    made._subscriber = SimpleNamespace(consumer=consumer)  # type: ignore[assignment]
    lives = {{"a": 0, "b": 1}[name]: SimpleNamespace(lane=lane) for name, lane in lanes.items()}
    made.membership = SimpleNamespace(lives=lives)  # type: ignore[assignment]
    return made


def test_when_one_partition_cannot_be_read_the_others_lose_nothing() -> None:
    """aiokafka has taken A's records and moved on when B's batch raises."""

    async def main() -> None:
        unreadable = Batches([record(B, 7)], ValueError("a header's name that is no UTF-8"))
        consumer = FakeConsumer({A: Batches([record(A, 3), record(A, 4)]), B: unreadable})
        consumer.positions = {A: 3, B: 7}
        of = inbox(consumer, a=FakeLane(3), b=FakeLane(7))

        with pytest.raises(ValueError, match="UTF-8"):
            await of.consumer.getmany(timeout_ms=20)

        assert consumer.positions == {A: 3, B: 7}

    run(main())


def test_lanes_that_are_not_open_seek_for_themselves() -> None:
    async def main() -> None:
        consumer = FakeConsumer({}, {A: 9, B: 9}, error=RuntimeError("CRC"))
        closed = FakeLane(1)
        closed.state = State.OPENING
        of = inbox(consumer, a=closed, b=FakeLane(5))

        with pytest.raises(RuntimeError):
            await of.consumer.getmany()

        assert consumer.positions == {A: 9, B: 5}
        assert of.consumer is of.consumer

    run(main())


def test_a_consumer_that_stops_is_no_fault() -> None:
    async def main() -> None:
        consumer = FakeConsumer({}, {A: 9}, error=ConsumerStoppedError())
        of = inbox(consumer, a=FakeLane(1))

        with pytest.raises(ConsumerStoppedError):
            await of.consumer.getmany()

        assert consumer.positions == {A: 9}

    run(main())


def test_what_was_fetched_before_a_seek_is_not_delivered() -> None:
    async def main() -> None:
        consumer = FakeConsumer({}, {A: 2, B: 8})
        a, b = FakeLane(2), FakeLane(7)
        await inbox(consumer, a=a, b=b)._take([record(A, 2), record(A, 3), record(B, 7)])

        assert (a.delivered, b.delivered) == ([], [7])

    run(main())


def test_what_was_taken_away_meanwhile_is_not_delivered_and_harms_no_other() -> None:
    async def main() -> None:
        consumer = FakeConsumer({}, {B: 8})
        a, b = FakeLane(2), FakeLane(7)
        await inbox(consumer, a=a, b=b)._take([record(A, 2), record(B, 7)])

        assert (a.delivered, b.delivered) == ([], [7])

    run(main())


def test_a_batch_that_fails_on_its_way_makes_its_lane_start_over() -> None:
    async def main() -> None:
        consumer = FakeConsumer({}, {A: 3, B: 8})
        a, b = FakeLane(2), FakeLane(7)
        error = RuntimeError("a bug")

        def broken(_: list[Any]) -> None:
            raise error

        a.deliver = broken  # type: ignore[assignment, method-assign]
        await inbox(consumer, a=a, b=b)._take([record(A, 2), record(B, 7)])

        assert (a.losses, b.losses, b.delivered) == ([error], [], [7])

    run(main())


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[" * 10_000, b'{"kind": 1e999}'])
def test_nothing_in_a_record_makes_its_arrival_fail(value: bytes | None) -> None:
    found = arrival(record(A, 5, value))

    assert (found.place.offset, found.place.timestamp, found.value) == (5, NOW, value)
    assert found.origin == found.place


def test_a_request_arrives_with_the_digest_of_its_canonical_body() -> None:
    plain = arrival(record(A, 1, b'{"a": 1, "b": 2}'))
    assert plain.digest != arrival(record(A, 1, b'{"b":2,"a":1}')).digest, "no request: its bytes"

    one, other = body("r-1"), dict(reversed(body("r-1").items()))
    first, second = (arrival(record(A, 1, json.dumps(value).encode())) for value in (one, other))
    assert first.digest == second.digest
