"""One record as it stands in its topic."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from aiokafka import ConsumerRecord

from answerbus.topics import Topic


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands."""

    topic: Topic
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A committed record, not yet looked into; `at_ms` is Kafka's time of it, since 1970."""

    topic: Topic
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    @classmethod
    def of(cls, topic: Topic, record: ConsumerRecord) -> Self:
        """What aiokafka gives, without its library."""
        return cls(
            topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
        )

    @property
    def at(self) -> datetime:
        """Kafka's time of the record, in UTC."""
        return datetime.fromtimestamp(self.at_ms / 1000, UTC)

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.topic, self.partition, self.offset)
