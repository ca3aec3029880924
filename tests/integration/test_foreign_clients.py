"""A client that is not ours, with a partitioner unlike Java's, publishes requests and reads on."""

import asyncio
import json
import time
from collections import Counter
from typing import Any
from zlib import crc32

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from answerbus.topics import DEAD_LETTERS, REFUSALS, REQUESTS, RESULTS
from tests.integration.bus import ANSWERED, Bus, Worker, request, until
from tests.integration.evidence import Evidence, JsonObject, assert_sound, collect, raw_of

pytestmark = pytest.mark.kafka

SLOW_S = 1.0
RULES: list[JsonObject] = [
    {"when": {"request_id": "slow-*"}, "reply": ANSWERED, "latency_s": SLOW_S},
    {"reply": ANSWERED},
]
FORWARDED = "answerbus_forwarded"
READ_LIMIT_S = 30.0


@pytest.fixture
def worker(bus: Bus) -> Worker:
    return bus.start_worker(bus.config(RULES))


class Publisher:
    """confluent-kafka as it comes: keyed records go by crc32, others anywhere."""

    def __init__(self, bus: Bus, **options: Any) -> None:
        self._topic = bus.topic(REQUESTS)
        self._producer = Producer({"bootstrap.servers": bus.bootstrap, **options})
        self.refused: list[KafkaError] = []

    def put(self, body: JsonObject, **place: Any) -> None:
        self.put_bytes(json.dumps(body).encode(), **place)

    def put_bytes(self, value: bytes, **place: Any) -> None:
        self._producer.produce(self._topic, value, on_delivery=self._delivered, **place)

    def flush(self) -> None:
        assert self._producer.flush(READ_LIMIT_S) == 0
        assert self.refused == []

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.refused.append(error)


def read_terminals(bus: Bus, count: int) -> list[JsonObject]:
    """What a plain consumer of results, refusals and dead letters sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": bus.bootstrap,
            "group.id": f"{bus.prefix}.downstream",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([bus.topic(topic) for topic in (RESULTS, REFUSALS, DEAD_LETTERS)])
    found: list[JsonObject] = []
    deadline = time.monotonic() + READ_LIMIT_S
    try:
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if error := message.error():
                raise KafkaException(error)
            found.append({**json.loads(message.value() or b""), "_partition": message.partition()})
    finally:
        consumer.close()
    return found


async def over(bus: Bus, worker: Worker) -> Evidence:
    """The evidence once the worker has drained, which must be sound."""
    assert worker.terminate() == 0
    evidence = await collect(bus)
    assert_sound(evidence)
    return evidence


async def test_every_request_is_answered_once_in_its_workflows_lane(
    bus: Bus, worker: Worker
) -> None:
    bodies = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        publisher = Publisher(bus, **{"compression.type": codec, "linger.ms": 50})
        for number in range(20):
            workflow_id = f"order-{codec}-{number % 5}"
            body = request(f"{codec}-{number}", workflow_id, budget={"attempts": 4})
            keys: list[JsonObject] = [{}, {"key": ""}, {"key": b"\xff\0"}, {"key": workflow_id}]
            publisher.put(body, **keys[number % 4])
            bodies.append(body)
        publisher.flush()

    seen = await asyncio.to_thread(read_terminals, bus, len(bodies))
    evidence = await over(bus, worker)

    assert {body["request_id"] for body in bodies} - {e["request_id"] for e in seen} == set()
    assert len(seen) == len(evidence.terminals) == len(bodies)
    assert {event["kind"] for event in seen} == {"result"}
    assert all(event["_partition"] == evidence.lane(event["workflow_id"]) for event in seen)
    assert_forwarded_once(evidence)


def assert_forwarded_once(evidence: Evidence) -> None:
    """A copy in its owner's partition for each record that stood elsewhere, and no other copy."""
    requests = evidence.records[REQUESTS]
    copies = [record for record in requests if FORWARDED in dict(record.headers)]
    firsts = [record for record in requests if FORWARDED not in dict(record.headers)]
    misrouted = {
        f"{r.partition}/{r.offset}/{r.timestamp}".encode(): r
        for r in firsts
        if r.partition != evidence.lane(json.loads(r.value)["workflow_id"])
    }

    assert misrouted
    assert Counter(dict(copy.headers)[FORWARDED] for copy in copies) == Counter(list(misrouted))
    for copy in copies:
        first = misrouted[dict(copy.headers)[FORWARDED]]
        body = json.loads(first.value)
        assert copy.value == first.value
        assert copy.key == body["workflow_id"].encode()
        assert copy.partition == evidence.lane(body["workflow_id"])


async def test_a_forwarded_request_keeps_its_first_time_and_its_headers(
    bus: Bus, worker: Worker
) -> None:
    body = request("r-1", "order-1")
    lane = crc32(b"order-1") % bus.partitions
    publisher = Publisher(bus)
    publisher.put(body, key="order-1", headers=[("trace", b"7")])
    publisher.flush()

    (seen,) = await asyncio.to_thread(read_terminals, bus, 1)
    evidence = await over(bus, worker)
    (first, copy) = sorted(evidence.records[REQUESTS], key=lambda record: record.timestamp)

    assert first.partition == lane != seen["_partition"]  # or this test would test nothing
    assert dict(copy.headers)["trace"] == b"7"
    assert seen["requested_at"] == milliseconds(first.timestamp)


def milliseconds(timestamp: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(timestamp / 1000)) + (
        f".{timestamp % 1000:03d}Z"
    )


async def test_duplicates_get_no_second_terminal(bus: Bus, worker: Worker) -> None:
    publisher = Publisher(bus)
    bodies = [request(f"slow-{n}", f"order-{n}") for n in range(8)]
    for body in bodies:
        for partition in range(bus.partitions):  # through every partition, its own too
            publisher.put(body, partition=partition)
        publisher.put_bytes(json.dumps(body, indent=2, sort_keys=True).encode())
    publisher.flush()
    await asyncio.to_thread(read_terminals, bus, len(bodies))
    for body in bodies:  # and once more, now that they are closed
        publisher.put(body)
    publisher.flush()

    copies = len(bodies) * (bus.partitions + 1)
    await until(lambda: worker.health["duplicates"] == copies, f"{copies} duplicates dropped")
    evidence = await over(bus, worker)

    assert Counter(event["request_id"] for event in evidence.terminals) == Counter(
        body["request_id"] for body in bodies
    )
    assert Counter(call["request_id"] for call in bus.calls()) == Counter(
        body["request_id"] for body in bodies
    )
    assert_forwarded_once(evidence)


async def test_an_id_with_another_body_is_a_conflict(bus: Bus, worker: Worker) -> None:
    publisher = Publisher(bus)
    first, other = request("slow-1", "order-1"), request("slow-1", "order-1", "Something else.")
    publisher.put(first)
    publisher.flush()
    await until(lambda: len(bus.calls()) == 1, "the first of the two is called")
    publisher.put(other)  # while the first is in flight
    publisher.flush()
    await asyncio.to_thread(read_terminals, bus, 2)
    publisher.put({**other, "ttl_s": 60})  # and a third one, after it
    publisher.flush()

    seen = await asyncio.to_thread(read_terminals, bus, 1)
    evidence = await over(bus, worker)
    dead_letters = [event for event in evidence.terminals if event["kind"] == "dead_letter"]

    assert [event["kind"] for event in seen] == ["dead_letter"]
    assert [dead_letter["cause"] for dead_letter in dead_letters] == [
        {"kind": "conflicting_id"}
    ] * 2
    assert sorted(event["kind"] for event in evidence.terminals)[2:] == ["result"]
    for dead_letter in dead_letters:
        assert (dead_letter["request_id"], dead_letter["workflow_id"]) == ("slow-1", "order-1")
        assert (dead_letter["request"], dead_letter["account"]) == (None, None)
        value, _ = raw_of(dead_letter)
        origin = dead_letter["origin"]
        (record,) = [
            r
            for r in evidence.records[REQUESTS]
            if (r.partition, r.offset) == (origin["partition"], origin["offset"])
        ]
        assert value == record.value
        place = f"{record.topic}-{record.partition}-{record.offset}"
        assert dead_letter["dead_letter_id"] == f"{place}.dead-letter"
    assert len(bus.calls()) == 1
