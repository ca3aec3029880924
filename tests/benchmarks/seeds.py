"""A past that was never lived: ledger records, held retries and requests that are done."""

import os
import sys
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from confluent_kafka import Consumer, Producer, TopicPartition

from answerbus.budget import AccountState, Budget, Spent
from answerbus.envelope import encode
from answerbus.event import Event
from answerbus.failure import Unavailable
from answerbus.outcome import Origin, RetryRequest
from answerbus.partition import partition_of
from answerbus.private.ledger import (
    OWNER_BYTES,
    REST_BYTES,
    AccountRecord,
    ClosedIdsRecord,
    ClosedRecord,
)
from answerbus.request import Request
from answerbus.topics import LEDGER, REQUESTS, TOPIC_OF_KIND, Topic
from tests.benchmarks.upstream import BUDGET_ATTEMPTS, request_body
from tests.integration.bus import Bus

FLUSH_LIMIT_S = 120.0
CHUNK_IDS = 16_384  # as many as a lane packs into one record
HELD_FOR = timedelta(hours=2)
_DIGEST = "sha256:" + "5" * 64
_LIMIT = Budget(attempts=BUDGET_ATTEMPTS)


def closed(count: int, workflows: int, now: datetime) -> Iterator[Event]:
    """Requests that have had their terminal, and the accounts of their workflows."""
    for n in range(workflows):
        yield AccountRecord(
            account_id=f"past-w{n}",
            workflow_id=f"past-w{n}",
            limit=_LIMIT,
            spent=Spent(attempts=1, tokens=876),
            last_attempt_hash=_DIGEST,
            updated_at=now,
        )
    for n in range(count):
        yield ClosedRecord(
            closes=f"past-{n}",
            workflow_id=f"past-w{n % workflows}",
            body_digest=_DIGEST,
            outcome="result",
            offset=n,
            at=now,
        )


def packed(
    count: int, partitions: int, now: datetime, *, from_s: float, to_s: float
) -> Iterator[tuple[int, ClosedIdsRecord]]:
    """Ids closed evenly between two ages, as their lanes have packed them, by partition."""
    chunks = max(count // CHUNK_IDS, partitions)
    each_s = (from_s - to_s) / chunks
    for n in range(chunks):
        since = now - timedelta(seconds=from_s - n * each_s)
        keys = array("Q", sorted(array("Q", os.urandom(8 * CHUNK_IDS))))
        if sys.byteorder == "little":
            keys.byteswap()
        yield (
            n % partitions,
            ClosedIdsRecord(
                chunk=str(n // partitions),
                keys=keys.tobytes(),
                rests=os.urandom(REST_BYTES * CHUNK_IDS),
                owners=os.urandom(OWNER_BYTES * CHUNK_IDS),
                offset=0,
                since=since,
                until=since + timedelta(seconds=each_s * partitions),
                at=now,
            ),
        )


def fill_packed(
    bus: Bus, chunks: Iterator[tuple[int, ClosedIdsRecord]], *, is_over: bool = False
) -> None:
    """Write them; if their day is over, lanes have ended them since."""
    producer = _producer(bus)
    for partition, chunk in chunks:
        encoded = encode(chunk)
        for value in (encoded.value, None) if is_over else (encoded.value,):
            _produce(producer, bus, LEDGER, value, encoded.key, partition)
    _flush(producer)


def held(count: int, now: datetime) -> Iterator[Event]:
    """Requests that wait for hours for their next attempt."""
    for n in range(count):
        request_id, workflow_id = f"held-{n}", f"held-w{n}"
        body = request_body(request_id, workflow_id)
        messages = tuple(body["context"]["messages"])
        request = Request.model_validate(
            {**body, "context": {**body["context"], "messages": messages}}
        )
        yield RetryRequest(
            event_id=f"{request_id}.retry.2",
            request_id=request_id,
            workflow_id=workflow_id,
            request=request,
            body_digest=_DIGEST,
            origin=Origin(topic="past", partition=0, offset=n, timestamp=now),
            next_attempt=2,
            not_before=now + HELD_FOR,
            deadline=now + 2 * HELD_FOR,
            counted=True,
            failure=Unavailable(status=500),
            account=AccountState(id=workflow_id, limit=_LIMIT, spent=Spent(attempts=1)),
            at=now,
        )


def fill(bus: Bus, events: Iterator[Event]) -> None:
    """Write them, each into the partition of its workflow."""
    producer = _producer(bus)
    for event in events:
        encoded = encode(event)
        owner = partition_of(getattr(event, "workflow_id", ""), bus.partitions)
        _produce(producer, bus, TOPIC_OF_KIND[event.kind], encoded.value, encoded.key, owner)
    _flush(producer)


def _producer(bus: Bus) -> Producer:
    options = {"bootstrap.servers": bus.bootstrap, "linger.ms": 20, "log_level": 0}
    return Producer({**options, "queue.buffering.max.kbytes": 65_536})


def _produce(
    producer: Producer, bus: Bus, topic: Topic, value: bytes | None, key: bytes, partition: int
) -> None:
    while True:
        try:
            producer.produce(bus.topic(topic), value, key, partition=partition)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _flush(producer: Producer) -> None:
    if producer.flush(FLUSH_LIMIT_S):
        raise RuntimeError("the seeds were not written")


def skip(bus: Bus) -> None:
    """Set the workers' group to the end of the requests topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bus.bootstrap,
            "group.id": f"{bus.prefix}.worker",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    places = [TopicPartition(bus.topic(REQUESTS), p) for p in range(bus.partitions)]
    for place in places:
        _, place.offset = consumer.get_watermark_offsets(place, timeout=10)
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def now() -> datetime:
    """For records of today."""
    return datetime.now(UTC)  # noqa: TID251 - seeds have to be young
