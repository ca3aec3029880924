"""What the private topics take on disk follows from what is remembered, not from what passed.

A day is as short as a second here, for Kafka and for the lane: its segments, how long null values
stay, and how long ids are known. What is written is what a lane writes for each request.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from answerbus.budget import Budget
from answerbus.envelope import encode
from answerbus.request_key import RequestKey
from answerbus.topics import LEDGER, RETRIES, Topic
from infra.kafka import start_broker
from services.worker.core.budget.account import Account
from services.worker.core.budget.closed import ClosedIds, IdMemory
from services.worker.core.budget.ledger import closed_record
from services.worker.lane.state import records
from services.worker.ports.kafka import OutRecord
from tests.unit.worker.builders import NOW

pytestmark = pytest.mark.kafka

HOURS = 24  # that ids are remembered
EACH_HOUR = 40  # requests
PASSED = 20  # times what is remembered
RETRIED_EVERY = 10
FASTER = 24 * 3_600  # a day in a second
SEGMENT_BYTES = 1024 * 1024  # the least that Kafka takes
SEGMENTS_MAX = 3  # beside the ids: what is written, and what Kafka has not compacted yet
REMEMBERED_BYTES_MAX = 2 * 32 * EACH_HOUR * (HOURS + 1)  # as docs/guarantees.md says
CATCH_UP_S = 60.0  # for Kafka, on a busy machine
RETRY = b"x" * 4_096
DIGEST = "sha256:" + "5" * 64


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A broker that looks for what it can compact all the time, and where it keeps its topics."""
    folder = tmp_path_factory.mktemp("disk")
    broker = start_broker(folder, properties={"log.cleaner.backoff.ms": "100"})
    yield broker.bootstrap_servers, folder / "log"
    broker.stop()


def create(bootstrap: str, topic: Topic) -> None:
    """As `answerbus topics apply` makes it, but for time and size."""
    assert topic.segments is not None
    spans = ("segment_ms", "nulls_ms")
    shorter = {name: getattr(topic.segments, name) // FASTER + 1 for name in spans}
    lag_ms = topic.compaction_lag_ms and topic.compaction_lag_ms // FASTER + 1
    small = replace(topic.segments, segment_bytes=SEGMENT_BYTES, **shorter)
    made = replace(topic, segments=small, compaction_lag_ms=lag_ms)
    settings = {**made.settings(), "file.delete.delay.ms": "100"}
    new = NewTopic(topic.full_name(), 1, 1, config=settings)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made_now in admin.create_topics([new]).values():
        made_now.result(CATCH_UP_S)


def written(ids: ClosedIds, hour: int) -> Iterator[OutRecord]:
    """What a lane writes in one hour, for requests that each had an account of their own."""
    for number in range(EACH_HOUR):
        now = NOW + timedelta(hours=hour, seconds=number * 3_600 / EACH_HOUR)
        name, offset = f"r-{hour}-{number}", hour * EACH_HOUR + number
        account = Account(f"w-{offset % 50}", f"w-{offset % 50}", Budget(attempts=9), now)
        yield records.account_record(account, 0).written()
        if number % RETRIED_EVERY == 0:
            retried = RequestKey(account.workflow_id, name).record_key().encode()
            yield OutRecord(RETRIES, 0, retried, RETRY, [])
            yield records.retry_tombstone(retried, 0)
        yield records.account_record(account, 0).written()
        closed = closed_record(name, account.workflow_id, DIGEST, "result", offset, now)
        ids.add(closed)
        yield records.event_record(closed, 0)
        ids.forget(now, offset + 1)
        for key, chunk in ids.pack(now):
            if chunk is None:
                yield records.ledger_tombstone(key, 0)
            else:
                encoded = encode(chunk)
                yield OutRecord(LEDGER, 0, encoded.key, encoded.value, encoded.headers)


def on_disk(folder: Path, topic: Topic) -> int:
    """The records alone; what is renamed is deleted in a moment."""
    segments = (folder / f"{topic.full_name()}-0").glob("*.log")
    return sum(segment.stat().st_size for segment in segments if segment.exists())


def wait_below(folder: Path, topic: Topic, bytes_max: int) -> None:
    deadline = time.monotonic() + CATCH_UP_S
    while (size := on_disk(folder, topic)) > bytes_max:
        assert time.monotonic() < deadline, f"{topic.name}: {size:,} bytes of {bytes_max:,}"
        time.sleep(0.05)


@pytest.mark.long
def test_what_passes_through_leaves_no_more_than_what_is_remembered(
    data: tuple[str, Path],
) -> None:
    bootstrap, folder = data
    for topic in (LEDGER, RETRIES):
        create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    ids, passed = ClosedIds(IdMemory(timedelta(hours=HOURS), chunk_ids=EACH_HOUR)), 0
    spare = SEGMENTS_MAX * SEGMENT_BYTES

    for hour in range(PASSED * HOURS):
        for record in written(ids, hour):
            producer.produce(record.topic.full_name(), record.value, record.key, partition=0)
            passed += record.size_bytes
        producer.flush(CATCH_UP_S)
        if hour % HOURS == HOURS - 1:
            wait_below(folder, LEDGER, REMEMBERED_BYTES_MAX + spare)
            wait_below(folder, RETRIES, spare)

    assert len(ids) >= HOURS * EACH_HOUR, "all that is promised is still known"
    assert passed > 2 * (REMEMBERED_BYTES_MAX + 2 * spare), "much has passed"
