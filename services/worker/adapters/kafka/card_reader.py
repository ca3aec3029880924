"""The cards of toolsets: read from their start, and followed while the worker runs."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from answerbus.client.bounded import bounded, close
from answerbus.client.diagnosis import describe_error_for_log
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from answerbus.client.turns import in_turns
from answerbus.envelope import Undecodable, decode
from answerbus.explain import problems_text
from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ToolAccepted, ToolsetCard
from answerbus.topics import ACCEPTED_TOOLS, SHARED_CARDS, Topic, tool_calls, toolset_cards
from services.text.escaping import plain_line
from services.worker.core.run.known_tools import NO_TOPIC, KnownTools, schema_fault
from services.worker.ports.costly_work import CostlyWork, EndedAtLimit
from services.worker.tasks.rounds import rounds

ASK_TIMEOUT_S = 30.0
FIRST_LOOK_S = 10.0  # for what is there when the worker starts
AGAIN_AFTER_S = 2.0
LOOK_EVERY_S = 10.0  # whether the topics of toolsets are still there
CATCH_UP_S = 10.0  # a request waits so long for cards that were announced before it
POLL_MS = 500
TAKE_S = 2.0  # of taking cards, before those of other toolsets that have come since are fetched
TOO_COSTLY = "it takes too long to compile its schemas"
NOT_COMPILED = "its schemas cannot be compiled"
SHARED = ""  # the toolset of the shared topic's place: no toolset has that name
ACCEPTED = "."  # the same of the topic of accepted tools
NOT_THERE = "there is no topic of accepted tools, or no right to see it: `answerbus topics apply`"

_log = logging.getLogger(__name__)


async def _write_nothing(_: Collection[ToolDefinition]) -> None:
    """Where nothing is kept."""


class CardReader:
    """Keeps the known tools as the topics of cards say, and as there are topics for their calls.

    A card is believed only in the topic of its own toolset, which its servers alone may write.
    Which changes of tools are accepted is read before any card is. The cards of toolsets that open
    runs want are read, too, whatever agents name.
    """

    def __init__(
        self,
        new_consumer: Callable[[], RecordConsumer],
        name_of: Callable[[Topic], str],
        known_tools: KnownTools,
        prepare: Callable[[], Awaitable[None]],
        toolsets: Callable[[], Collection[str]],
        *,
        shared: bool = False,
        costly_work: CostlyWork,
        write: Callable[[Collection[ToolDefinition]], Awaitable[None]] = _write_nothing,
    ) -> None:
        """`prepare` does what takes time with new tools, before any run uses them.

        `toolsets` are those that agents name now, `shared`: the topic of earlier versions, which
        any tool server may write, is read too. A card has up to 256 schemas, which `costly_work`
        compiles. `write` puts tools on the topic of accepted tools; raises KafkaError or
        TimeoutError.
        """
        self._prepare, self._costly_work, self._write = prepare, costly_work, write
        self._new_consumer, self._name_of = new_consumer, name_of
        self._known_tools, self._toolsets, self._shared = known_tools, toolsets, shared
        self._places: Mapping[TopicPartition, str] = {}  # that are read, with their toolsets
        self._fetched: dict[TopicPartition, deque[Record]] = {}  # and not taken yet
        self._has_own_card: set[str] = set()
        self._compiled: dict[str, tuple[str, str | None]] = {}  # last tools and their fault
        self._lacks_places = False
        self._shared_for = frozenset[str]()  # toolsets whose cards of the shared topic are taken
        self._absent: set[str] = set()  # toolsets without a topic of cards
        self._is_read = asyncio.Event()
        self._asked: asyncio.Event | None = None  # by those who came since the end was asked for
        self._catching_up: list[asyncio.Event] = []
        self._looked_at = -LOOK_EVERY_S  # loop time

    async def until_read(self) -> None:
        """Wait for what was there, for a bounded time: without the topics there are no tools."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                await self._is_read.wait()
        except TimeoutError:
            _log.warning("no cards of toolsets could be read yet")

    async def catch_up(self) -> None:
        """Wait until all that is announced by now is read, for a bounded time."""
        self._asked = asked = self._asked or asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                await asked.wait()

    async def run(self) -> None:
        """Read for ever; after a failure again, from the start."""
        await rounds("reading cards of toolsets", self._round, AGAIN_AFTER_S)

    async def _round(self) -> None:
        consumer = self._new_consumer()
        try:
            await bounded(consumer.start(), ASK_TIMEOUT_S)
            await self._follow(consumer)
        except (KafkaError, TimeoutError, OSError) as error:
            _log.warning("cannot read cards of toolsets: %s", describe_error_for_log(error))
        finally:
            await close(consumer.stop())

    async def _follow(self, consumer: Any) -> None:
        self._places, self._fetched, self._looked_at = {}, {}, -LOOK_EVERY_S
        await self._read_accepted(consumer)
        ends: Mapping[TopicPartition, int] = {}
        while True:
            looks = self._answer_waiting() or self._looks_again()
            if looks:
                await self._look_for_topics(consumer)
                ends = await self._ends(consumer)
            is_new = await self._fetch(consumer)
            if is_new and not looks:  # a server makes its topics, and then announces its card
                await self._look_for_topics(consumer)
            has_taken = await self._take_some()
            if has_taken or looks:
                await self._keep()
                await self._prepare()
            if await self._has_read(consumer, ends):
                self._report_all_read()

    async def _read_accepted(self, consumer: Any) -> None:
        names = await bounded(consumer.topics(), ASK_TIMEOUT_S)
        await self._assign(consumer, self._place_of_accepted(names))
        ends = await self._ends(consumer)
        while not await self._has_read(consumer, ends):
            await self._fetch(consumer)
            await self._take_some()

    def _place_of_accepted(self, names: Collection[str]) -> dict[TopicPartition, str]:
        name = self._name_of(ACCEPTED_TOOLS)
        is_there = name in names
        self._known_tools.not_kept = None if is_there else NOT_THERE
        return {TopicPartition(name, 0): ACCEPTED} if is_there else {}

    async def _take_some(self) -> bool:
        """Whether there was one to take. What is left waits for the next time."""
        has_taken = bool(self._fetched)
        async for place, record in in_turns(self._by_turns()):
            await self._take(self._places[place], record)
        return has_taken

    def _by_turns(self) -> Iterator[tuple[TopicPartition, Record]]:
        """One of each place after the other: one with thousands of cards holds up no other."""
        clock = asyncio.get_running_loop().time
        until = clock() + TAKE_S
        while self._fetched and clock() < until:
            place = next(iter(self._fetched))
            records = self._fetched.pop(place)
            record = records.popleft()
            if records:
                self._fetched[place] = records  # behind the others
            yield place, record

    async def _keep(self) -> None:
        """What fails is tried again; until then a worker that starts believes what it finds."""
        unwritten = self._known_tools.accepted.unwritten
        if not unwritten or self._known_tools.not_kept == NOT_THERE:
            return
        try:
            await self._write(unwritten)
        except (KafkaError, TimeoutError, OSError) as error:
            fault = f"the topic of accepted tools is not written ({describe_error_for_log(error)})"
            self._known_tools.not_kept = fault
            _log.warning("%s", fault)

    async def _ends(self, consumer: Any) -> Mapping[TopicPartition, int]:
        if not self._places:
            return {}
        ends: Mapping[TopicPartition, int] = await bounded(
            consumer.end_offsets([*self._places]), ASK_TIMEOUT_S
        )
        return ends

    async def _fetch(self, consumer: Any) -> bool:
        """Whether there are new ones; places with some that are not taken yet are left out."""
        if not self._places:
            await asyncio.sleep(POLL_MS / 1000)
            return False
        consumer.pause(*self._fetched)
        consumer.resume(*(self._places.keys() - self._fetched.keys()))
        wait_ms = 0 if self._fetched else POLL_MS
        found = await bounded(consumer.getmany(timeout_ms=wait_ms), ASK_TIMEOUT_S)
        new = {place: deque(records) for place, records in found.items() if records}
        self._fetched = new | self._fetched
        return bool(new)

    async def _has_read(self, consumer: Any, ends: Mapping[TopicPartition, int]) -> bool:
        has_read = True
        for place in self._places.keys() & ends.keys():
            if await self._position(consumer, place) < ends[place]:
                has_read = False
            else:
                self._known_tools.read.add(self._places[place])
        return has_read

    async def _position(self, consumer: Any, place: TopicPartition) -> int:
        """The offset of the record that is taken next."""
        if waiting := self._fetched.get(place):
            return waiting[0].offset
        position: int = await bounded(consumer.position(place), ASK_TIMEOUT_S)
        return position

    def _answer_waiting(self) -> bool:
        """Whether somebody asked for what is there now, since the end was asked for last."""
        asked, self._asked = self._asked, None
        if asked:
            self._catching_up.append(asked)
        return asked is not None

    def _report_all_read(self) -> None:
        self._is_read.set()
        self._known_tools.read |= self._absent
        while self._catching_up:
            self._catching_up.pop().set()

    async def _look_for_topics(self, consumer: Any) -> None:
        """The tool server makes the topics of its toolset, and they may be deleted."""
        names = await bounded(consumer.topics(), ASK_TIMEOUT_S)
        for toolset in self._known_tools.look(lambda one: self._name_of(tool_calls(one)) in names):
            _log.warning("the toolset %s cannot be used any more: %s", toolset, NO_TOPIC)
        named = self._named()
        self._known_tools.read &= named
        wanted = {self._name_of(toolset_cards(one)): one for one in sorted(named)}
        if self._shared:
            wanted[self._name_of(SHARED_CARDS)] = SHARED
        is_again = self._reads_shared_again(named)
        places = {TopicPartition(name, 0): one for name, one in wanted.items() if name in names}
        self._absent = {one for name, one in wanted.items() if name not in names}
        if new := places.keys() - self._places.keys():  # one that says nothing holds up the others
            for place in await bounded(consumer.without_leader(new), ASK_TIMEOUT_S):
                _log.warning("no cards are read from %s: no broker leads it", place.topic)
                del places[place]
        self._lacks_places = len(places) < len(wanted)
        places |= self._place_of_accepted(names)
        for toolset in {*self._places.values()} - {SHARED, ACCEPTED} - named:
            self._known_tools.end(toolset)  # which nothing names any more
            self._has_own_card.discard(toolset)
        if is_again or places != self._places:
            await self._assign(consumer, places)
        self._looked_at = asyncio.get_running_loop().time()

    def _reads_shared_again(self, named: frozenset[str]) -> bool:
        """From its start where there are new names: cards of other toolsets are passed over."""
        is_again = self._shared and not named <= self._shared_for
        self._shared_for = named
        if is_again:
            self._places = {at: one for at, one in self._places.items() if one != SHARED}
        return is_again

    def _named(self) -> frozenset[str]:
        """The toolsets that agents name, or that open runs want."""
        return frozenset(self._toolsets()) | self._known_tools.wanted

    async def _assign(self, consumer: Any, places: Mapping[TopicPartition, str]) -> None:
        """New places are read from their start, the others from where they are."""
        kept = self._places.keys() & places.keys()
        positions = {one: await bounded(consumer.position(one), ASK_TIMEOUT_S) for one in kept}
        consumer.assign([*places])
        for place, position in positions.items():
            consumer.seek(place, position)
        if new := places.keys() - kept:
            await bounded(consumer.seek_to_beginning(*new), ASK_TIMEOUT_S)
        self._places = places
        self._fetched = {at: them for at, them in self._fetched.items() if at in kept}

    def _looks_again(self) -> bool:
        is_unread = not self._known_tools.wanted <= self._known_tools.read
        is_soon = is_unread or self._lacks_places or self._known_tools.waits_for_topics
        again_s = AGAIN_AFTER_S if is_soon else LOOK_EVERY_S
        return asyncio.get_running_loop().time() >= self._looked_at + again_s

    async def _take(self, owner: str, record: Record) -> None:
        """`owner` is whose topic it is in: the only toolset that it may speak of."""
        if isinstance(record, Unreadable):
            return
        key = (record.key or b"").decode(errors="replace")
        if owner == ACCEPTED:
            self._accept(key, record.value)
            return
        toolset = owner or key
        if owner:
            self._has_own_card.add(owner)
        elif toolset in self._has_own_card or toolset not in self._named():
            return
        if key != toolset:
            self._refuse(toolset, "the topic of its card has a record with another key")
        elif record.value is None:
            self._known_tools.end(toolset)
        else:
            await self._settle(toolset, record.value)

    def _accept(self, tool: str, value: bytes | None) -> None:
        if value is None:
            self._known_tools.forget(tool)
            return
        record = decode(value)
        if isinstance(record, ToolAccepted) and record.name == tool:
            self._known_tools.accept(record)

    async def _settle(self, toolset: str, value: bytes) -> None:
        card = decode(value)
        if isinstance(card, Undecodable):
            why = plain_line(problems_text(card.problems))
            self._refuse(toolset, f"the record is not a card: {why}")
        elif not isinstance(card, ToolsetCard):
            self._refuse(toolset, f"the record is not a card: its kind is {card.kind}")
        elif card.toolset != toolset:
            self._refuse(toolset, "the card is of another toolset")
        elif fault := self._known_tools.settle(card, await self._fault_of(card)):
            _log.warning("card of toolset %s rejected: %s", toolset, fault)

    async def _fault_of(self, card: ToolsetCard) -> str | None:
        """A server that starts again announces the same tools, which are compiled once."""
        tools = card.model_dump_json(include={"tools"})
        if self._compiled.get(card.toolset, ("", None))[0] != tools:
            fault = await self._compile(card)
            if fault in {TOO_COSTLY, NOT_COMPILED}:
                return fault  # which may be otherwise the next time
            self._compiled[card.toolset] = tools, fault
        return self._compiled[card.toolset][1]

    async def _compile(self, card: ToolsetCard) -> str | None:
        owner = f"toolset {card.toolset}"
        try:
            found = await self._costly_work.run(owner, schema_fault, card)
        except Exception as error:  # one card must not keep all others from being read
            cause = describe_error_for_log(error)
            _log.exception("card of toolset %s cannot be compiled: %s", card.toolset, cause)
            return NOT_COMPILED
        return TOO_COSTLY if isinstance(found, EndedAtLimit) else found

    def _refuse(self, toolset: str, fault: str) -> None:
        self._known_tools.refuse(toolset, fault)
        _log.warning("card of toolset %s rejected: %s", toolset, fault)
