"""The worker's consumer in its group: created at each start, with watched polls."""

import asyncio
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.errors import RequestTimedOutError
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.group import HeartbeatRequest

from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from services.worker.adapters.kafka.read_monitor import ReadMonitor

POLL_MS: Final = 500  # that a poll of an idle topic waits at least
# Each of these is answered at once. aiokafka waits 40 s for an answer, while a cluster has replaced
# a broker that is frozen after some seconds.
PROMPT_S: Final = 10.0
PROMPT: Final = (HeartbeatRequest, FindCoordinatorRequest)
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class WatchedConsumer(RecordConsumer):
    """Reports to the monitor how each of its polls went.

    After a poll without records FastStream sleeps for the time-out of the poll once more, and
    misses what comes meanwhile. So its time-out is short, and a poll waits longer than that.
    """

    def __init__(self, *topics: str, read_monitor: ReadMonitor, **options: Any) -> None:
        self._read_monitor = read_monitor
        super().__init__(*topics, **options)
        self._ask, self._update = self._client.send, self._client._metadata_update  # noqa: SLF001
        self._client.send, self._client._metadata_update = self._asked, self._updated  # noqa: SLF001

    async def _asked(self, node_id: Any, request: Any, **options: Any) -> Any:
        """The answer of a broker; one that does not answer in time is connected to again."""
        if not isinstance(request, PROMPT):
            return await self._ask(node_id, request, **options)
        try:
            async with asyncio.timeout(PROMPT_S):
                return await self._ask(node_id, request, **options)
        except TimeoutError:
            at = node_id, options.get("group", ConnectionGroup.DEFAULT)
            if connection := self._client._conns.get(at):  # noqa: SLF001 - as aiokafka does
                connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
            raise RequestTimedOutError from None

    async def _updated(self, *given: Any) -> Any:
        """Whether the metadata were answered; of a broker by chance, and then of another."""
        try:
            async with asyncio.timeout(PROMPT_S):
                return await self._update(*given)
        except TimeoutError:
            return False

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
