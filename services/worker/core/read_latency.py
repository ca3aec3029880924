"""How long records wait to be read, and how much of it is the consumer's fault; pure.

A wait is counted as a whole, with all its causes. What the consumer is
blamed for is less: while Kafka does not say where a partition ends, it gives no records either.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """Where a lane that takes requests in stands, and where its partition ends.

    `position` is None where the consumer does not know from where to read.
    """

    position: int | None
    end: int


@dataclass(frozen=True, slots=True)
class Unread:
    """Records that wait behind `position`, which has not moved `since`.

    `blamed_since` is later by as long as Kafka was silent on the partition meanwhile.
    """

    position: int | None
    end: int
    since: float
    blamed_since: float

    def says(self, now: float, cause: str) -> str:
        first = "an unknown place" if self.position is None else f"offset {self.position}"
        return (
            f"records from {first} to {self.end} have not been read for {now - self.since:.0f} "
            f"s: {cause}"
        )


@dataclass(frozen=True, slots=True)
class Silence:
    """Kafka does not say where a partition ends.

    `cause` is None where it says nothing of any partition: that is reported once for all of them.
    """

    since: float
    cause: str | None

    def says(self, partition: int, now: float) -> str:
        return (
            f"Kafka has not said for {now - self.since:.0f} s where partition {partition} of the "
            f"requests topic ends: {self.cause}"
        )


@dataclass(slots=True)
class ReadWaits:
    """By partition, as of the last look."""

    unread: Mapping[int, Unread] = field(default_factory=dict)
    silent: Mapping[int, Silence] = field(default_factory=dict)
    read_out: Collection[int] = ()  # nothing but markers of transactions was left of them

    def look(self, places: Mapping[int, PartitionPosition], now: float) -> None:
        """Compare the places of all lanes that take requests in with those of the last look.

        Those of silent partitions are as they were.
        """
        unread = {number: it for number, it in self.unread.items() if number in self.silent}
        for partition, place in places.items():
            unread.pop(partition, None)
            if place.position is None or place.position < place.end:
                unread[partition] = self._waiting(partition, place, now)
        self.unread, self.read_out = unread, places.keys() - unread.keys()

    def mark_silent(self, causes: Mapping[int, str | None], began: float, now: float) -> None:
        """Partitions without an answer from Kafka; it answered for all others."""
        self.unread = {
            number: it if number in causes else self._without_stall(number, it, now)
            for number, it in self.unread.items()
        }
        self.silent = {
            number: Silence(known.since if (known := self.silent.get(number)) else began, cause)
            for number, cause in causes.items()
        }

    def forgive(self) -> None:
        """There is a new consumer: nothing before the next look counts against it."""
        self.unread = {number: replace(it, blamed_since=inf) for number, it in self.unread.items()}

    def _waiting(self, partition: int, place: PartitionPosition, now: float) -> Unread:
        """A place that has not moved has waited since it was first seen so."""
        before = self.unread.get(partition)
        if before is None or before.position != place.position:
            return Unread(place.position, place.end, now, now)
        return replace(before, end=place.end, blamed_since=min(before.blamed_since, now))

    def _without_stall(self, partition: int, unread: Unread, now: float) -> Unread:
        silence = self.silent.get(partition)
        if silence is None or unread.blamed_since > silence.since:
            return unread
        return replace(unread, blamed_since=unread.blamed_since + now - silence.since)
