"""Whether requests are read: what the group's consumer said last, and how long records wait."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from aiokafka.errors import ConsumerStoppedError

from answerbus.client.refusal import words_of


class TopicMissing(Exception):
    """The requests topic is not there, or this user may not see it; the text says what to do."""


class Subscriber(Protocol):
    """The part of FastStream's subscriber that starts and ends its consumer."""

    consumer: Any

    async def start(self) -> None:
        """Make a consumer, and let it join the group."""
        ...

    async def stop(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where a lane that takes requests in stands, and where its partition ends.

    `position` is None where the consumer does not know from where to read.
    """

    position: int | None
    end: int


@dataclass(frozen=True, slots=True)
class Unread:
    """Records that wait behind `position`, which has not moved since (loop time)."""

    position: int | None
    end: int
    since: float

    def says(self, cause: str) -> str:
        """For an operator."""
        first = "an unknown place" if self.position is None else f"offset {self.position}"
        return (
            f"records from {first} to {self.end} have not been read for {_now() - self.since:.0f} "
            f"s: {cause}"
        )


class Reading:
    """What is known of it at this moment; times are the loop's."""

    def __init__(self) -> None:
        self.error: BaseException | None = None  # of the last poll, if it failed
        self.failing_since: float | None = None
        self.polled_at: float | None = None  # when a poll last ended, well or not
        self.unread: Mapping[int, Unread] = {}  # by partition
        self.short_looks: dict[int, int] = {}  # how often a partition was shorter than what is read
        self.anew: set[int] = set()  # partitions that are read from their beginning

    async def watched(self, getmany: Callable[..., Awaitable[Any]], **options: Any) -> Any:
        """Poll, and remember how it went."""
        try:
            found = await getmany(**options)
        except ConsumerStoppedError:
            raise
        except Exception as error:
            self.failed(error)
            raise
        self.error = self.failing_since = None
        self.polled_at = _now()
        return found

    def failed(self, error: BaseException) -> None:
        """A poll has failed, or the consumer could not even be started."""
        self.error, self.polled_at = error, _now()
        if self.failing_since is None:
            self.failing_since = self.polled_at

    def look(self, places: Mapping[int, Place]) -> None:
        """Compare the places of all lanes that take requests in with those of the last look."""
        now, before = _now(), self.unread
        self.unread = {
            partition: Unread(place.position, place.end, _since(place, before.get(partition), now))
            for partition, place in places.items()
            if place.position is None or place.position < place.end
        }

    def unread_s(self, partition: int) -> float:
        """How long the records of a partition have waited."""
        unread = self.unread.get(partition)
        return _now() - unread.since if unread else 0.0

    def trouble_of(self, partition: int, bound_s: float) -> str | None:
        """Why the records of a partition have waited for longer than the bound."""
        if self.unread_s(partition) <= bound_s:
            return None
        return self.unread[partition].says(self._cause())

    def trouble(self, bound_s: float) -> str | None:
        """Why nothing is read at all: it fails, or has not been tried for longer than the bound."""
        if self.error is not None and self.failing_since is not None:
            failing_s = _now() - self.failing_since
            return f"requests have not been read for {failing_s:.0f} s: {words_of(self.error)}"
        if self.polled_at is not None and _now() - self.polled_at > bound_s:
            return f"requests have not been read: {self._cause()}"
        return None

    def hopeless(self, failing_s: float, silent_s: float, unread_s: float) -> str | None:
        """Why the consumer will not recover: so long it fails, is not asked, delivers nothing."""
        if self.failing_since is not None and _now() - self.failing_since <= failing_s:
            return None
        if why := self.trouble(silent_s):
            return why
        for partition in self.unread:
            if why := self.trouble_of(partition, unread_s):
                return f"partition {partition}: {why}"
        return None

    def forget(self) -> None:
        """There is a new consumer, of which nothing is known yet."""
        self.error = self.failing_since = None
        self.polled_at, self.unread = _now(), {}

    def _cause(self) -> str:
        if self.error is not None:
            return words_of(self.error)
        if self.polled_at is None:
            return "the consumer has not been asked for records"
        silent_s = _now() - self.polled_at
        if silent_s > _POLL_S_MAX:
            return f"the consumer has not been asked for records for {silent_s:.0f} s"
        return "the consumer is asked for records and delivers none of them"


_POLL_S_MAX = 10.0  # what a poll and the handling of its records take at most, by far


def _since(place: Place, before: Unread | None, now: float) -> float:
    """A place that has not moved has waited since it was first seen so."""
    return before.since if before and before.position == place.position else now


def _now() -> float:
    return asyncio.get_running_loop().time()
