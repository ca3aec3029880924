"""The worker's consumer in its group: created at each start, with watched polls."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from aiokafka import TopicPartition

from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from services.worker.adapters.kafka.read_monitor import ReadMonitor

POLL_MS: Final = 500  # that a poll of an idle topic waits at least
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class WatchedConsumer(RecordConsumer):
    """Reports to the monitor how each of its polls went.

    After a poll without records FastStream sleeps for the time-out of the poll once more, and
    misses what comes meanwhile. So its time-out is short, and a poll waits longer than that.
    """

    def __init__(self, *topics: str, read_monitor: ReadMonitor, **options: Any) -> None:
        self._read_monitor = read_monitor
        super().__init__(*topics, **options)

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        wait_ms = max(timeout_ms, POLL_MS)
        poll = partial(super().getmany, *places, timeout_ms=wait_ms, max_records=max_records)
        found: dict[TopicPartition, list[Record]] = await self._read_monitor.watched(poll)
        return found


class GroupConsumer:
    """The consumer of this moment: FastStream makes one at its start, and a renewal another.

    `options` are those of its connection: FastStream knows no tokens, and no secret that changes.
    """

    def __init__(
        self,
        read_monitor: ReadMonitor,
        options: Mapping[str, Any] = NO_OPTIONS,
        rack: str | None = None,
    ) -> None:
        self._read_monitor, self._options, self._rack = read_monitor, options, rack
        self._current: WatchedConsumer | None = None

    def make(self, *topics: str, **options: Any) -> WatchedConsumer:
        """What FastStream calls instead of aiokafka's class."""
        given = {**options, **self._options, "client_rack": self._rack}
        self._current = WatchedConsumer(*topics, read_monitor=self._read_monitor, **given)
        return self._current

    def current(self) -> WatchedConsumer:
        """There is one from the first start on."""
        if self._current is None:
            raise RuntimeError("the worker is not subscribed")
        return self._current
