"""One record in its topic, with its position."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal, Self

from msgspec import Struct

from answerbus.broker_time import bounded_ms, moment
from answerbus.client.records.batch import Record
from answerbus.client.records.unreadable import Unreadable
from answerbus.failure import Problem
from answerbus.request_key import SEPARATOR
from answerbus.topics import RETRIES, Topic


class RecordPosition(Struct, frozen=True, gc=False):
    topic: Topic
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class RetryEnded:
    """A null value in the retries: the request is no longer being retried."""

    request_id: str
    workflow_id: str | None  # None where a version before wrote the key
    kind: ClassVar[Literal["retry_ended"]] = "retry_ended"


@dataclass(frozen=True, slots=True)
class Stored:
    """A committed record, not yet looked into; `at_ms` is Kafka's time of it, since 1970.

    `fault` says why it cannot be read, if so; it then counts as a record without content.
    """

    topic: Topic
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    fault: Problem | None = None

    @classmethod
    def of(cls, topic: Topic, record: Record) -> Self:
        """A record of the consumer, without its library's types."""
        if isinstance(record, Unreadable):
            at_ms = bounded_ms(record.timestamp)
            place = (record.partition, record.offset)
            return cls(topic, *place, at_ms, None, b"", (), record.problem)
        return cls(
            topic,
            record.partition,
            record.offset,
            bounded_ms(record.timestamp),
            record.key,
            record.value,
            record.headers,
        )

    @property
    def at(self) -> datetime:
        """Kafka's time of the record, in UTC."""
        return moment(self.at_ms)

    @property
    def size(self) -> int:
        """Of what the record holds, in bytes."""
        return len(self.key or b"") + len(self.value or b"")

    @property
    def place(self) -> RecordPosition:
        return RecordPosition(self.topic, self.partition, self.offset)

    @property
    def retry_ended(self) -> RetryEnded | None:
        """The meaning of a record without a value among the retries."""
        if self.topic is RETRIES and self.value is None and self.key is not None:
            name, _, workflow_id = self.key.decode(errors="replace").partition(SEPARATOR)
            return RetryEnded(name, workflow_id or None)
        return None
