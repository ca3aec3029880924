"""The cards of toolsets: read from their start, and followed while the worker runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
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
from answerbus.topics import TOOLSETS, Topic, tool_calls
from services.worker.core.run.known_tools import NO_TOPIC, KnownTools, schema_fault

ASK_TIMEOUT_S = 30.0
FIRST_LOOK_S = 10.0  # for what stands there when the worker starts
AGAIN_AFTER_S = 2.0
LOOK_EVERY_S = 10.0  # whether the topics of toolsets are still there
CATCH_UP_S = 10.0  # a request waits so long for cards that were announced before it
POLL_MS = 500

_log = logging.getLogger(__name__)


async def fault_apart(card: ToolsetCard) -> str | None:
    """A card has up to 256 schemas, which are all compiled."""
    return await asyncio.to_thread(schema_fault, card)


class CardReader:
    """Keeps the known tools as the topic of cards says, and as there are topics for their calls."""

    def __init__(
        self,
        new_consumer: Callable[[], RecordConsumer],
        name_of: Callable[[Topic], str],
        known_tools: KnownTools,
        prepare: Callable[[], Awaitable[None]],
        fault_of: Callable[[ToolsetCard], Awaitable[str | None]] = fault_apart,
    ) -> None:
        """`prepare` does what takes time with new tools, before any run uses them.

        `fault_of` says what is wrong with the schemas of a card.
        """
        self._prepare, self._fault_of = prepare, fault_of
        self._new_consumer, self._name_of = new_consumer, name_of
        self._known_tools = known_tools
        self._place = TopicPartition(name_of(TOOLSETS), 0)
        self._is_read = asyncio.Event()
        self._asked: asyncio.Event | None = None  # by those who came since the end was asked for
        self._catching_up: list[asyncio.Event] = []
        self._looked_at = 0.0  # loop time

    async def until_read(self) -> None:
        """Wait for what stood there, for a bounded time: without the topic there are no tools."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                await self._is_read.wait()
        except TimeoutError:
            _log.warning("no card of a toolset could be read from %s yet", self._place.topic)

    async def catch_up(self) -> None:
        """Wait until all that is announced by now is read, for a bounded time."""
        self._asked = asked = self._asked or asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                await asked.wait()

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
        self._answer_waiting()
        while self._place.topic not in await bounded(consumer.topics(), ASK_TIMEOUT_S):
            self._report_all_read()  # no tool server has ever announced one
            await asyncio.sleep(AGAIN_AFTER_S)
            self._answer_waiting()
        consumer.assign([self._place])
        await bounded(consumer.seek_to_beginning(self._place), ASK_TIMEOUT_S)
        ends = await bounded(consumer.end_offsets([self._place]), ASK_TIMEOUT_S)
        while True:
            asked = self._answer_waiting()
            if asked:
                ends = await bounded(consumer.end_offsets([self._place]), ASK_TIMEOUT_S)
            found = await bounded(consumer.getmany(timeout_ms=POLL_MS), ASK_TIMEOUT_S)
            records = found.get(self._place, ())
            has_changed = records or asked or self._looks_again()
            if has_changed:
                await self._look_for_topics(consumer)
            for record in records:
                await self._take(record)
            if has_changed:
                await self._prepare()
            if await bounded(consumer.position(self._place), ASK_TIMEOUT_S) >= ends[self._place]:
                self._report_all_read()

    def _answer_waiting(self) -> bool:
        """Whether somebody asked for what is there now, since the end was asked for last."""
        asked, self._asked = self._asked, None
        if asked:
            self._catching_up.append(asked)
        return asked is not None

    def _report_all_read(self) -> None:
        self._is_read.set()
        while self._catching_up:
            self._catching_up.pop().set()

    async def _look_for_topics(self, consumer: Any) -> None:
        """The tool server makes the topic of its toolset, and the topic may be deleted."""
        names = await bounded(consumer.topics(), ASK_TIMEOUT_S)
        for toolset in self._known_tools.look(lambda one: self._name_of(tool_calls(one)) in names):
            _log.warning("the toolset %s cannot be used any more: %s", toolset, NO_TOPIC)
        self._looked_at = asyncio.get_running_loop().time()

    def _looks_again(self) -> bool:
        again_s = AGAIN_AFTER_S if self._known_tools.waits_for_topics else LOOK_EVERY_S
        return asyncio.get_running_loop().time() >= self._looked_at + again_s

    async def _take(self, record: Record) -> None:
        if isinstance(record, Unreadable):
            return
        if record.value is None:
            self._known_tools.end((record.key or b"").decode(errors="replace"))
            return
        card = decode(record.value)
        if not isinstance(card, ToolsetCard):
            return
        unusable = await self._fault_of(card)
        if fault := self._known_tools.settle(card, unusable):
            _log.warning("the card of the toolset %s is not taken: %s", card.toolset, fault)
