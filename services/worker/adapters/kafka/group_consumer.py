"""The worker's consumer in its group: created at each start, with watched polls."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.errors import KafkaError, RequestTimedOutError
from aiokafka.protocol.api import Request, RequestStruct
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.group import HeartbeatRequest, HeartbeatResponse_v1, JoinGroupRequest
from aiokafka.protocol.types import Int32, Schema, String

from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from services.worker.adapters.kafka.read_monitor import InstanceIdTaken, ReadMonitor

POLL_MS: Final = 500  # that a poll of an idle topic waits at least
# Each of these is answered at once. aiokafka waits 40 s for an answer, while a cluster has replaced
# a broker that is frozen after some seconds.
PROMPT_S: Final = 10.0
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
FENCED_INSTANCE_ID: Final = 82  # an error code that aiokafka does not know

_log = logging.getLogger(__name__)


class _Answer(HeartbeatResponse_v1):  # type: ignore[misc]  # aiokafka has no types
    API_VERSION = 3


class _Struct(RequestStruct):  # type: ignore[misc]
    API_KEY = HeartbeatRequest.API_KEY
    API_VERSION = 3
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
    )


class StaticHeartbeat(Request[_Struct]):  # type: ignore[misc]
    """With the id of a static member: the broker answers if another has joined with it.

    To aiokafka's own, which lacks it, the broker answers that it does not know the member. So that
    joins again, and puts the other out, which does the same.
    """

    API_KEY = HeartbeatRequest.API_KEY

    def __init__(self, plain: HeartbeatRequest, instance_id: str) -> None:
        member = plain._group, plain._generation_id, plain._member_id  # noqa: SLF001
        self._fields = *member, instance_id

    def build(self, request_struct_class: type[_Struct]) -> _Struct:
        """See aiokafka."""
        return request_struct_class(*self._fields)


PROMPT: Final = (HeartbeatRequest, StaticHeartbeat, FindCoordinatorRequest)


class WatchedConsumer(RecordConsumer):
    """Reports to the monitor how each of its polls went.

    After a poll without records FastStream sleeps for the time-out of the poll once more, and
    misses what comes meanwhile. So its time-out is short, and a poll waits longer than that.
    """

    def __init__(self, *topics: str, read_monitor: ReadMonitor, **options: Any) -> None:
        self._read_monitor = read_monitor
        self._instance_id: str | None = options.get("group_instance_id")
        self._is_taken = False
        super().__init__(*topics, **options)
        self._ask, self._update = self._client.send, self._client._metadata_update  # noqa: SLF001
        self._client.send, self._client._metadata_update = self._asked, self._updated  # noqa: SLF001

    async def start(self) -> None:
        """See aiokafka. Raises InstanceIdTaken where two workers start together."""
        with self._explained():
            await super().start()

    async def _asked(self, node_id: Any, request: Any, **options: Any) -> Any:
        """The answer of a broker. Raises the error that ends aiokafka's attempts to join again."""
        if self._is_taken and isinstance(request, JoinGroupRequest):
            raise RuntimeError(str(InstanceIdTaken(self._instance_id)))
        if self._instance_id and isinstance(request, HeartbeatRequest):
            request = StaticHeartbeat(request, self._instance_id)
        answer = await self._in_time(node_id, request, **options)
        code = getattr(answer, "error_code", None)
        # Of a consumer that was given up, the lanes are those of the next one of this process.
        if self._instance_id and code == FENCED_INSTANCE_ID and not self._closed:
            self._is_taken = True
            taken = str(InstanceIdTaken(self._instance_id))
            _log.error("this worker reads no requests any more: %s", taken)
            if self._subscription.listener:
                self._subscription.listener.on_partitions_assigned(())  # lanes hand over
            raise RuntimeError(taken)  # it takes errors of Kafka for passing ones
        return answer

    async def _in_time(self, node_id: Any, request: Any, **options: Any) -> Any:
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
        poll = partial(self._polled, *places, timeout_ms=wait_ms, max_records=max_records)
        found: dict[TopicPartition, list[Record]] = await self._read_monitor.watched(poll)
        return found

    async def _polled(self, *places: TopicPartition, **options: Any) -> Any:
        with self._explained():
            return await super().getmany(*places, **options)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raises InstanceIdTaken once it is, in place of what aiokafka makes of it."""
        try:
            yield
        except (KafkaError, RuntimeError):
            if not self._is_taken:
                raise
        if self._is_taken:
            raise InstanceIdTaken(self._instance_id)


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
