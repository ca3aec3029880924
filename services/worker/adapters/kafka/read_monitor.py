"""Watches the reading of requests: the consumer's last poll, and how long records wait."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from aiokafka.errors import ConsumerStoppedError, KafkaError

from answerbus.client.diagnosis import describe_error
from services.worker.core.read_latency import PartitionPosition, ReadWaits, Unread
from services.worker.tasks.loop_time import loop_time


class TopicMissing(Exception):
    """The requests topic is not there, or this user may not see it; the text says what to do."""


class InstanceIdTaken(KafkaError):  # type: ignore[misc]  # aiokafka ships no types
    """Another worker has joined with the same static id; to join again would put that one out."""

    def __init__(self, instance_id: str | None) -> None:
        super().__init__(
            f"another worker has joined the group with the same `kafka.group_instance_id` "
            f"({instance_id}): give each worker an id of its own, or none, and start this one again"
        )


class Subscriber(Protocol):
    """The part of FastStream's subscriber that starts and ends its consumer."""

    consumer: Any

    async def start(self) -> None:
        """Make a consumer, and let it join the group."""
        ...

    async def stop(self) -> None: ...


class ReadMonitor:
    """Its state at this moment; times are the loop's."""

    def __init__(self) -> None:
        self.error: BaseException | None = None  # of the last poll, if it failed
        self.failing_since: float | None = None
        self.polled_at: float | None = None  # when a poll last ended, well or not
        self._made_at = loop_time()
        self._waits = ReadWaits()
        self.short_looks: dict[int, int] = {}  # how often a partition was shorter than what is read
        self.from_beginning: set[int] = set()  # partitions that are read from their beginning

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
        self.polled_at = loop_time()
        return found

    def failed(self, error: BaseException) -> None:
        """A poll has failed, or the consumer could not even be started."""
        self.error, self.polled_at = error, loop_time()
        if self.failing_since is None:
            self.failing_since = self.polled_at

    @property
    def unread(self) -> Mapping[int, Unread]:
        return self._waits.unread

    def look(self, places: Mapping[int, PartitionPosition]) -> None:
        """Note where all lanes stand that take requests in."""
        self._waits.look(places, loop_time())

    def mark_silent(self, causes: Mapping[int, str | None], began: float) -> None:
        """Record the partitions whose end Kafka did not give, asked at `began`, and why."""
        self._waits.mark_silent(causes, began, loop_time())

    @property
    def apart(self) -> Collection[int]:
        """The partitions whose end Kafka did not give, though it gave others."""
        return {number for number, silence in self._waits.silent.items() if silence.cause}

    def is_read_out(self, partition: int) -> bool:
        """Whether all records were read, as of the last look at a lane that takes requests in."""
        return partition in self._waits.read_out

    def unread_s(self, partition: int) -> float:
        """How long the records of a partition have waited."""
        unread = self.unread.get(partition)
        return loop_time() - unread.since if unread else 0.0

    def problem_of(self, partition: int, bound_s: float) -> str | None:
        """Why the records of a partition have waited for longer than the bound, or may wait."""
        now, silence = loop_time(), self._waits.silent.get(partition)
        cause = silence.cause if silence else None
        if self.unread_s(partition) > bound_s:
            return self.unread[partition].says(now, cause or self._cause())
        if silence and cause and now - silence.since > bound_s:
            return silence.says(partition, now)
        return None

    def problem(self, bound_s: float) -> str | None:
        """Why nothing is read at all: it fails, or has not been tried for longer than the bound."""
        if self.error is not None and self.failing_since is not None:
            failing_s = loop_time() - self.failing_since
            return (
                f"requests have not been read for {failing_s:.0f} s: {describe_error(self.error)}"
            )
        if loop_time() - (self.polled_at or self._made_at) > bound_s:
            return f"requests have not been read: {self._cause()}"
        return None

    def beyond_recovery(self, failing_s: float, silent_s: float, unread_s: float) -> str | None:
        """Why a new consumer is needed: so long it fails, is not asked, delivers nothing."""
        if isinstance(self.error, InstanceIdTaken):
            return None
        if self.failing_since is not None and loop_time() - self.failing_since <= failing_s:
            return None
        if why := self.problem(silent_s):
            return why
        now = loop_time()
        for partition, unread in self.unread.items():
            if partition not in self._waits.silent and now - unread.blamed_since > unread_s:
                return f"partition {partition}: {unread.says(now, self._cause())}"
        return None

    def forget(self) -> None:
        """There is a new consumer; nothing is known of it yet."""
        self.error = self.failing_since = None
        self.polled_at = loop_time()
        self._waits.forgive()

    def _cause(self) -> str:
        if self.error is not None:
            return describe_error(self.error)
        if self.polled_at is None:
            return "the consumer has not been asked for records"
        silent_s = loop_time() - self.polled_at
        if silent_s > _POLL_S_MAX:
            return f"the consumer has not been asked for records for {silent_s:.0f} s"
        return "the consumer is asked for records and delivers none of them"


_POLL_S_MAX = 10.0  # what a poll and the handling of its records take at most, by far
