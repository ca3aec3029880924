"""From Kafka to lanes: what was overtaken by a seek leaves no gap, and what is unreadable fits."""

import json
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import IllegalStateError
from faststream.kafka import TestKafkaBroker

from answerbus.client.records.unreadable import Extent, Unreadable
from answerbus.envelope import Undecodable
from answerbus.private.ledger import WorkInProgress
from services.settings.settings import KafkaSettings
from services.worker.adapters.kafka import arrivals
from services.worker.adapters.kafka.group_consumer import GroupConsumer
from services.worker.adapters.kafka.intake import Inbox
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.adapters.kafka.subscription import RequestBroker, subscribe
from services.worker.core.budget.ledger import Ledger
from services.worker.core.request.admit import Arrival, UnfitRequest, admit
from services.worker.core.request.known_schemas import KnownSchemas
from services.worker.lane.state.machine import State
from tests.unit.worker.builders import NOW, TOPIC, body
from tests.unit.worker.lane.virtual import on_virtual_time

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


def arrival(found: Any) -> Arrival:
    return arrivals.arrival(found, KnownSchemas())


@dataclass
class FakeConsumer:
    """Positions alone."""

    positions: dict[TopicPartition, int]

    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.positions[place] = offset

    async def position(self, place: TopicPartition) -> int:
        if place not in self.positions:
            raise IllegalStateError
        return self.positions[place]


class FakeLane:
    """Notes what is delivered."""

    def __init__(self, position: int) -> None:
        self.state = State.OPEN
        watermark, suspects = SimpleNamespace(position=position), SimpleNamespace(record=None)
        self.lane_state = SimpleNamespace(watermark=watermark, suspects=suspects)
        self.open = SimpleNamespace(lane_state=self.lane_state, is_careful=False)
        self.delivered: list[int] = []
        self.losses: list[BaseException] = []
        self.on_loss = self.losses.append

    def fail_at(self, what: WorkInProgress, error: Exception) -> None:
        assert what.what == "record"
        self.on_loss(error)

    def deliver(self, arrivals: list[Any]) -> None:
        self.delivered.extend(one.place.offset for one in arrivals)


def inbox(consumer: FakeConsumer, **lanes: FakeLane) -> Inbox:
    lifecycles = {
        {"a": 0, "b": 1}[name]: SimpleNamespace(lane=lane) for name, lane in lanes.items()
    }
    membership: Any = SimpleNamespace(lifecycles=lifecycles)
    current: Any = lambda: consumer  # noqa: E731 - it has a type
    return Inbox(current, membership)


@on_virtual_time
async def test_what_was_fetched_before_a_seek_is_not_delivered() -> None:
    consumer = FakeConsumer({A: 2, B: 8})
    a, b = FakeLane(2), FakeLane(7)
    await inbox(consumer, a=a, b=b).take([record(A, 2), record(A, 3), record(B, 7)])

    assert (a.delivered, b.delivered) == ([], [7])


@on_virtual_time
async def test_what_was_taken_away_meanwhile_is_not_delivered_and_harms_no_other() -> None:
    consumer = FakeConsumer({B: 8})
    a, b = FakeLane(2), FakeLane(7)
    await inbox(consumer, a=a, b=b).take([record(A, 2), record(B, 7)])

    assert (a.delivered, b.delivered) == ([], [7])


@on_virtual_time
async def test_a_batch_that_fails_on_its_way_makes_its_lane_start_over() -> None:
    consumer = FakeConsumer({A: 3, B: 8})
    a, b = FakeLane(2), FakeLane(7)
    error = RuntimeError("a bug")

    def broken(_: list[Any]) -> None:
        raise error

    a.deliver = broken  # type: ignore[assignment, method-assign]
    await inbox(consumer, a=a, b=b).take([record(A, 2), record(B, 7)])

    assert (a.losses, b.losses, b.delivered) == ([error], [], [7])


@pytest.mark.parametrize("headers", [(), (("x", None),), (("x", b"\xff"),), (("\udcff", b""),) * 3])
@on_virtual_time
async def test_what_faststream_was_given_reaches_its_lane(headers: tuple[Any, ...]) -> None:
    lane = FakeLane(2)
    taken = inbox(FakeConsumer({A: 4}), a=lane).take
    broker = RequestBroker(KafkaSettings(), GroupConsumer(ReadMonitor()))
    subscriber: Any = subscribe(broker, KafkaSettings(), TOPIC, None, taken)
    async with TestKafkaBroker(broker):
        await subscriber.consume([replace(record(A, n), headers=headers) for n in (2, 3)])

    assert lane.delivered == [2, 3]


@on_virtual_time
async def test_what_a_lane_begins_with_a_batch_does_not_keep_it() -> None:
    """A task keeps its context as long as it runs, and FastStream puts the batch into its own."""

    class NotingLane(FakeLane):
        def deliver(self, arrivals: list[Any]) -> None:
            super().deliver(arrivals)
            self.context = copy_context()

    lane, workers_own = NotingLane(2), dict(copy_context())
    taken = inbox(FakeConsumer({A: 3}), a=lane).take
    broker = RequestBroker(KafkaSettings(), GroupConsumer(ReadMonitor()))
    subscriber: Any = subscribe(broker, KafkaSettings(), TOPIC, None, taken)
    async with TestKafkaBroker(broker):
        await subscriber.consume([record(A, 2)])

    assert (lane.delivered, dict(lane.context)) == ([2], workers_own)


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[" * 10_000, b'{"kind": 1e999}'])
def test_nothing_in_a_record_makes_its_arrival_fail(value: bytes | None) -> None:
    found = arrival(record(A, 5, value))

    assert (found.place.offset, found.place.timestamp, found.value) == (5, NOW, value)
    assert found.origin == found.place


@pytest.mark.parametrize("milliseconds", [-(2**63), -1, 0, 9_400_000_000_000_000, 2**63 - 1])
def test_no_time_of_a_record_makes_its_arrival_fail(milliseconds: int) -> None:
    found = arrival(replace(record(A, 5), timestamp=milliseconds))

    assert datetime(1970, 1, 1, tzinfo=UTC) <= found.place.timestamp
    assert found.place.timestamp + timedelta(days=1) < datetime.max.replace(tzinfo=UTC)


def unreadable(extent: Extent, value: bytes) -> Unreadable:
    return Unreadable(TOPIC, 0, 5, 8, 0, extent, "headers whose names are UTF-8", None, value)


def test_of_an_unreadable_record_the_ids_are_kept_where_its_value_is_known() -> None:
    value = json.dumps(body("r-1")).encode()
    known, unknown = (arrival(unreadable(e, value)) for e in ("headers", "batch"))

    assert isinstance(known.decoded, Undecodable)
    assert isinstance(unknown.decoded, Undecodable)
    assert (known.decoded.request_id, known.decoded.workflow_id) == (
        "r-1",
        body("r-1")["workflow_id"],
    )
    assert (unknown.decoded.request_id, unknown.decoded.workflow_id) == (None, None)
    assert known.decoded.problems[0].code == "unreadable_headers"
    assert unknown.decoded.problems[0].expected.endswith("; it stands at offsets 5 to 7")


def test_an_unreadable_batch_is_undecodable_however_large_it_is() -> None:
    found = admit(arrival(unreadable("batch", b"x" * 600_000)), Ledger(), {}, 1)

    assert isinstance(found, UnfitRequest)
    assert found.cause.kind == "undecodable"


def test_a_request_arrives_with_the_digest_of_its_canonical_body() -> None:
    plain = arrival(record(A, 1, b'{"a": 1, "b": 2}'))
    assert plain.digest != arrival(record(A, 1, b'{"b":2,"a":1}')).digest, "no request: its bytes"

    one, other = body("r-1"), dict(reversed(body("r-1").items()))
    first, second = (arrival(record(A, 1, json.dumps(value).encode())) for value in (one, other))
    assert first.digest == second.digest
