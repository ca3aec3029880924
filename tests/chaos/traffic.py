"""The upstream and downstream of a run: publishes what is due, and sees which requests ended."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.chaos.audit.record import Record
from tests.chaos.workload import Publication

ASK_LIMIT_S = 5.0
DELIVERY_LIMIT_MS = 300_000  # a broker that is away is waited for
_BATCH = 2_000


class Publisher:
    """Publishes in order of time; the broker drops what its retries would repeat."""

    def __init__(self, bootstrap: str, prefix: str, publications: list[Publication]) -> None:
        self._prefix = prefix
        self._left = list(reversed(publications))
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": DELIVERY_LIMIT_MS,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self.refused: list[str] = []
        self.delivered = 0

    def publish_due(self, now_s: float) -> None:
        """Hand over what is due; returns at once."""
        while self._left and self._left[-1].at_s <= now_s:
            record = self._left.pop()
            self._producer.produce(
                f"{self._prefix}.{record.topic}.v1",
                key=record.key,
                value=record.value,
                partition=record.partition,
                headers=_traced(record.value),
                on_delivery=self._on_delivery,
            )
        self._producer.poll(0)

    @property
    def is_done(self) -> bool:
        """Whether everything is published and acknowledged."""
        return not self._left and len(self._producer) == 0

    def _on_delivery(self, error: object, _record: object) -> None:
        self.delivered += error is None
        if error is not None:
            self.refused.append(str(error))


def _traced(value: bytes | None) -> list[tuple[str, str | bytes | None]]:
    """Every second record comes with a span of its publisher."""
    digest = hashlib.sha256(value or b"").hexdigest()
    if int(digest[-1], 16) % 2:
        return []
    return [("traceparent", f"00-{digest[:32]}-{digest[32:48]}-01".encode())]


class Watcher:
    """Reads terminals as any downstream service would, and asks how far the group has read."""

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        partitions: int,
        *,
        reads_requests: bool = True,
    ) -> None:
        """Requests are read to know where they end, if this client can read them."""
        self._prefix, self._partitions = prefix, partitions
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "watcher-without-a-group",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        names = ("requests", "results", "refusals", "dead-letters")
        self._requests = f"{prefix}.requests.v1"
        topics = [f"{prefix}.{name}.v1" for name in names[not reads_requests :]]
        self._consumer.assign(
            [TopicPartition(t, p, OFFSET_BEGINNING) for t in topics for p in range(partitions)]
        )
        self._last: dict[int, int] = {}
        self.ended: set[str] = set()
        self.dead_letters = 0
        self.kinds: Counter[str] = Counter()

    def look(self, wait_s: float) -> None:
        """Take in what has come."""
        for message in self._consumer.consume(_BATCH, timeout=wait_s):
            if message.error() is not None:
                continue
            if message.topic() == self._requests:
                self._last[message.partition() or 0] = message.offset() or 0
            else:
                self._take(json.loads(message.value() or b""))

    def missing(self, request_ids: Collection[str]) -> list[str]:
        """Which of them have no terminal."""
        return sorted(set(request_ids) - self.ended)

    def unread(self, requests: Sequence[Record] | None = None) -> list[int] | None:
        """The partitions of requests that the group has not read to their end; None: no answer.

        `requests` are the records of that topic, in order, where this client cannot read them.
        """
        self._last.update({record.partition: record.offset for record in requests or ()})
        places = [TopicPartition(self._requests, number) for number in range(self._partitions)]
        group = ConsumerGroupTopicPartitions(f"{self._prefix}.worker", places)
        try:
            (answer,) = self._admin.list_consumer_group_offsets([group]).values()
            found = answer.result(timeout=ASK_LIMIT_S).topic_partitions
        except KafkaException:
            return None
        return [p.partition for p in found if p.offset <= self._last.get(p.partition, -1)]

    def close(self) -> None:
        self._consumer.close()

    def _take(self, event: dict[str, object]) -> None:
        cause = event.get("cause")
        kind = str(event["kind"])
        self.kinds[f"{kind} {cause['kind']}" if isinstance(cause, dict) else kind] += 1
        if cause and event.get("request") is None:
            self.dead_letters += 1
        else:
            self.ended |= {str(event["request_id"]), full_name(event)}


def full_name(body: Mapping[str, object]) -> str:
    """A request by its workflow and its id: an id alone may be that of two."""
    return f"{body.get('workflow_id')}/{body.get('request_id')}"
