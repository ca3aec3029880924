"""Calls are written to topics that tool servers make and may take away: no lane stops for them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka.structs import RecordMetadata

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error_for_log
from answerbus.topics import toolset_of
from services.worker.core.run.tool_access import UnavailableToolsets
from services.worker.ports.clock import Clock
from services.worker.ports.kafka import OutRecord

FIND_S = 3.0  # both are less than a commit may last (outbox.COMMIT_TIMEOUT_S)
WRITE_S = 6.0

_log = logging.getLogger(__name__)

Acknowledged = asyncio.Future[RecordMetadata]
Send = Callable[[OutRecord], Awaitable[Acknowledged]]


class ToolTopics:
    """Finds out which toolset's topic keeps a transaction from being written, and says so.

    A transaction cannot be mended: its lane starts over, and then writes no calls of that toolset
    until the pause is over.
    """

    def __init__(self, prefix: str, clock: Clock, unavailable: UnavailableToolsets) -> None:
        self._prefix, self._clock, self._unavailable = prefix, clock, unavailable

    async def find(self, producer: Any, calls: Sequence[OutRecord]) -> None:
        """Look for the topics, before anything of the transaction is sent. Raises KafkaError."""
        for call in {call.topic: call for call in calls}.values():
            try:
                await bounded(producer.partitions_for(call.topic.full_name(self._prefix)), FIND_S)
            except (KafkaError, TimeoutError) as error:
                self._failed(call, error)
                raise

    async def write(
        self, calls: Sequence[OutRecord], send: Send, others: Sequence[Acknowledged]
    ) -> None:
        """Send calls, and wait for them and the `others` of their transaction. Raises KafkaError.

        A call that a toolset's topic does not take is not a fault of the topics that are ours.
        """
        if not calls:
            return
        sent: dict[int, Acknowledged] = {}
        try:
            async with asyncio.timeout(WRITE_S):
                for number, call in enumerate(calls):
                    sent[number] = await send(call)
                await asyncio.wait([*others, *sent.values()])
                for acknowledged in (*others, *sent.values()):
                    acknowledged.result()
        except (KafkaError, TimeoutError) as error:
            for call in self._refused(calls, sent, others):
                self._failed(call, error)
            raise
        self._unavailable.written(filter(None, (toolset_of(call.topic) for call in calls)))

    def _refused(
        self,
        calls: Sequence[OutRecord],
        sent: Mapping[int, Acknowledged],
        others: Sequence[Acknowledged],
    ) -> Iterator[OutRecord]:
        """Those whose topic is why the transaction fails; none if another one may be, too."""
        forbidden = {name for found in (*others, *sent.values()) for name in _forbidden(found)}
        if named := [it for it in calls if it.topic.full_name(self._prefix) in forbidden]:
            yield from named
        elif all(map(_is_written, others)):
            for number, call in enumerate(calls[: len(sent) + 1]):  # the last found no room
                if number not in sent or not _is_written(sent[number]):
                    yield call

    def _failed(self, call: OutRecord, error: KafkaError | TimeoutError) -> None:
        toolset = toolset_of(call.topic) or ""
        _log.warning(
            "calls of the toolset %s cannot be written to %s: %s",
            toolset,
            call.topic.full_name(self._prefix),
            describe_error_for_log(error),
        )
        self._unavailable.failed(toolset, self._clock.now())


def _is_written(found: Acknowledged) -> bool:
    return found.done() and not found.cancelled() and found.exception() is None


def _forbidden(found: Acknowledged) -> Iterator[str]:
    """The topics that an error says we have no right to; it names one, or several."""
    error = found.exception() if found.done() and not found.cancelled() else None
    if isinstance(error, TopicAuthorizationFailedError):
        for detail in error.args:
            yield from [detail] if isinstance(detail, str) else map(str, detail)
