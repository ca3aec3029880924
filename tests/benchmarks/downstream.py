"""What a service that reads terminals sees, and when: read_committed, from the beginning."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from answerbus.topics import DEAD_LETTERS, REFUSALS, RESULTS
from tests.integration.bus import Bus

POLL_S = 0.05
JOIN_LIMIT_S = 10.0


class Downstream:
    """Filled by a thread of its own; only read it for what is monotonic, or after the end."""

    def __init__(self) -> None:
        self.seen_at: dict[str, float] = {}  # the first terminal of each request, wall clock
        self.kinds: Counter[str] = Counter()
        self.doubled = 0

    def take(self, value: bytes, now: float) -> None:
        """One record."""
        event = json.loads(value)
        if event["request_id"] in self.seen_at:
            self.doubled += 1
            return
        self.seen_at[event["request_id"]] = now
        self.kinds[event.get("kind", "result")] += 1


@contextmanager
def watching(bus: Bus, topics: Sequence[str] | None = None) -> Iterator[Downstream]:
    """Read from the beginning until the block ends; by default the topics of all terminals."""
    names = topics or [bus.topic(topic) for topic in (RESULTS, REFUSALS, DEAD_LETTERS)]
    consumer = Consumer(
        {
            "bootstrap.servers": bus.bootstrap,
            "group.id": "downstream-without-a-group",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign(
        [TopicPartition(n, p, OFFSET_BEGINNING) for n in names for p in range(bus.partitions)]
    )
    seen, over = Downstream(), threading.Event()

    def look() -> None:
        while not over.is_set():
            record = consumer.poll(POLL_S)
            if record is not None and record.error() is None:
                seen.take(record.value() or b"", time.time())

    reader = threading.Thread(target=look, daemon=True)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join(JOIN_LIMIT_S)
        consumer.close()
