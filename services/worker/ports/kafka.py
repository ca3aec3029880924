"""The ports to Kafka: the producer and the consumer of one partition, and their records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from answerbus.envelope import Headers
from answerbus.request_key import RequestKey
from answerbus.topics import Topic

About = RequestKey | str
"""What ends, or is written smaller, if a topic does not take a record: a request, or an event."""


class OutRecord(NamedTuple):
    """A record for one partition of one topic; a null value ends a compacted key.

    Without a partition its key decides, over as many as the topic has: others may have made it.
    `about` is None where no request and no event can be blamed for its size.
    """

    topic: Topic
    partition: int | None
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]
    about: About | None = None

    @property
    def size_bytes(self) -> int:
        """The size of key and value."""
        return len(self.key) + len(self.value or b"")

    def written(self) -> "OutRecord":
        return self


class LateRecord(NamedTuple):
    """A record of a compacted topic, written out only if no later one of its key follows."""

    topic: Topic
    partition: int
    key: bytes
    headers: list[tuple[str, bytes]]
    size_bytes: int  # about
    write: Callable[[], bytes]

    def written(self) -> OutRecord:
        """The record itself."""
        return OutRecord(self.topic, self.partition, self.key, self.write(), self.headers)


Outgoing = OutRecord | LateRecord


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record read back from a private or compacted topic.

    `fault` says why its very bytes could not be read; then the value is what is there of them.
    """

    topic: Topic
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    offset: int = 0
    fault: str | None = None
    appended_at: datetime | None = None  # by the broker's clock, where it says so


@dataclass(slots=True)
class ReadProgress:
    """How far the past of a lane is read: the next offset by topic, and where it ends for now.

    `read_at` is when it was last asked for more, on a monotonic clock.
    """

    positions: dict[Topic, int] = field(default_factory=dict)
    starts: dict[Topic, int] = field(default_factory=dict)
    ends: dict[Topic, int] = field(default_factory=dict)
    read_at: float | None = None

    @property
    def whole(self) -> int:
        """How many offsets there are to be read."""
        return sum(end - self.starts.get(topic, 0) for topic, end in self.ends.items())

    @property
    def done(self) -> int:
        """How many of them are read."""
        return sum(
            position - self.starts.get(topic, 0) for topic, position in self.positions.items()
        )

    def __str__(self) -> str:
        share = 100 * self.done // self.whole if self.whole > 0 else 100
        return f"read {self.done:,} of {self.whole:,} offsets of ledger and retries ({share} %)"


class PastCut(Exception):
    """Data read from the private topics is invalid, and has to be read again.

    They are shorter than it, since they were created again or cut; or it is so old that records
    which take some of it back may be gone.
    """


class RecordTooLarge(Exception):
    """Records are larger than their topics take: the transaction with them has not happened."""

    def __init__(self, *records: OutRecord) -> None:
        more = f", and so are {len(records) - 1:,} others" if len(records) > 1 else ""
        super().__init__(too_large_text(records[0]) + more)
        self.records = records

    def __str__(self) -> str:
        """Also where it is an error of Kafka, too, which puts a number and its name before that."""
        return str(self.args[0])


def too_large_text(record: OutRecord) -> str:
    """The size of a record, and the topic that does not take it."""
    size, topic = record.size_bytes, record.topic.name
    return f"a record of {size:,} bytes is larger than the topic {topic} takes"


class Shard(Protocol):
    """The Kafka side of one lane: its fenced transactional producer and its private records.

    Every method raises on failure; after that the shard is good for nothing but `close`.
    """

    async def fence(self) -> None:
        """Start the producer; this shuts out the owner before."""
        ...

    async def read_private(
        self, take: Callable[[StoredRecord], None], progress: ReadProgress
    ) -> None:
        """Hand over the partition of ledger and retries, as committed, up to its present end.

        It starts where `progress` says, which advances with each record given to `take`: after an
        interruption the next reading goes on there. Raises PastCut where that is not possible.
        """
        ...

    async def stop_reading(self) -> None:
        """Let go of what reading holds; never raises."""
        ...

    async def commit(self, records: Sequence[OutRecord], offset: int | None) -> None:
        """One transaction: send all, await each, set the group's offset, commit.

        Raises RecordTooLarge where single records are known to be why that fails.
        """
        ...

    async def close(self) -> None:
        """Stop the producer, within a bounded time; never raises."""
        ...


class Intake(Protocol):
    """The consumer's side of one partition of the requests topic."""

    def pause(self) -> None:
        """Stop delivery."""
        ...

    def resume(self) -> None:
        """Let records come, from where `seek` pointed."""
        ...

    def seek(self, offset: int) -> None:
        """Let the next record be the first at or after `offset`."""
        ...

    async def start_offset(self) -> tuple[int, int]:
        """Where to begin (the group's committed offset, else the first), and the first there is."""
        ...

    async def prove(self, offset: int) -> None:
        """Commit `offset` as a group member; raises unless the broker says we own the partition."""
        ...
