"""The cards of toolsets: read from their start, and followed while the worker runs."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error_for_log
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from answerbus.envelope import decode
from answerbus.toolset_card import ToolsetCard
from services.worker.core.run.known_tools import KnownTools

ASK_TIMEOUT_S = 30.0
FIRST_LOOK_S = 10.0  # for what stands there when the worker starts
AGAIN_AFTER_S = 2.0
POLL_MS = 500

_log = logging.getLogger(__name__)


class CardReader:
    """Keeps a known_tools as the topic of cards says."""

    def __init__(
        self, new_consumer: Callable[[], RecordConsumer], topic: str, known_tools: KnownTools
    ) -> None:
        self._new_consumer, self._known_tools = new_consumer, known_tools
        self._place = TopicPartition(topic, 0)
        self._is_read = asyncio.Event()

    async def until_read(self) -> None:
        """Wait for what stood there, for a bounded time: without the topic there are no tools."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                await self._is_read.wait()
        except TimeoutError:
            _log.warning("no card of a toolset could be read from %s yet", self._place.topic)

    async def run(self) -> None:
        """Read for ever; what fails is begun anew, from the start."""
        while True:
            consumer = self._new_consumer()
            try:
                await bounded(consumer.start(), ASK_TIMEOUT_S)
                await self._follow(consumer)
            except (KafkaError, TimeoutError, OSError) as error:
                _log.warning("cards of toolsets are not read: %s", describe_error_for_log(error))
                await asyncio.sleep(AGAIN_AFTER_S)
            finally:
                await bounded(consumer.stop(), ASK_TIMEOUT_S)

    async def _follow(self, consumer: Any) -> None:
        while self._place.topic not in await bounded(consumer.topics(), ASK_TIMEOUT_S):
            self._is_read.set()  # no tool server has ever announced one
            await asyncio.sleep(AGAIN_AFTER_S)
        consumer.assign([self._place])
        await bounded(consumer.seek_to_beginning(self._place), ASK_TIMEOUT_S)
        ends = await bounded(consumer.end_offsets([self._place]), ASK_TIMEOUT_S)
        while True:
            found = await bounded(consumer.getmany(timeout_ms=POLL_MS), ASK_TIMEOUT_S)
            for record in found.get(self._place, ()):
                self._take(record)
            if await bounded(consumer.position(self._place), ASK_TIMEOUT_S) >= ends[self._place]:
                self._is_read.set()

    def _take(self, record: Record) -> None:
        if isinstance(record, Unreadable):
            return
        if record.value is None:
            self._known_tools.end((record.key or b"").decode(errors="replace"))
            return
        card = decode(record.value)
        if isinstance(card, ToolsetCard) and (fault := self._known_tools.take(card)):
            _log.warning("the card of the toolset %s is not taken: %s", card.toolset, fault)
