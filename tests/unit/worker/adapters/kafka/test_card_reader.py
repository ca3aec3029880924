"""Cards are used only while there is a topic for the calls of their toolset."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from answerbus.control import Cancel
from answerbus.envelope import encode
from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ToolAccepted, ToolsetCard
from answerbus.topics import ACCEPTED_TOOLS, SHARED_CARDS, Topic, tool_calls, toolset_cards
from services.worker.adapters.kafka.card_reader import (
    AGAIN_AFTER_S,
    CATCH_UP_S,
    LOOK_EVERY_S,
    TAKE_S,
    TOO_COSTLY,
    CardReader,
)
from services.worker.core.run.known_tools import NO_TOPIC, KnownTools
from services.worker.ports.costly_work import CostlyWork, EndedAtLimit, InPlace
from tests.unit.worker.core.run.test_known_tools import card
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import until

CANCEL = Cancel(
    scope="workflow",
    workflow_id="w",
    by="ann",
    reason="",
    at=datetime(2026, 11, 28, tzinfo=UTC),
)
ORDERS, ECHO = toolset_cards("orders"), toolset_cards("echo")


def of_both(*more: Topic) -> set[str]:
    """The names of the topics of both toolsets."""
    calls = (tool_calls(name) for name in ("orders", "echo"))
    return {topic.full_name() for topic in (ORDERS, ECHO, *calls, *more)}


@dataclass(frozen=True)
class Record:
    key: bytes
    value: bytes | None
    offset: int = 0  # once it is read


@dataclass
class Consumer:
    """A broker with cards, and with topics that come and go."""

    cards: dict[str, list[Record]] = field(default_factory=dict)
    there: set[str] = field(default_factory=lambda: {ORDERS.full_name()})
    fails: bool = False  # once
    unled: set[str] = field(default_factory=set)  # topics whose partition has no leader
    _read: dict[TopicPartition, int] = field(default_factory=dict)
    _paused: set[TopicPartition] = field(default_factory=set)

    async def start(self) -> None:
        await asyncio.sleep(0)

    stop = start

    async def topics(self) -> set[str]:
        return set(self.there)

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self._read = dict.fromkeys(places, 10**6)  # where nobody has said
        self._paused = set()

    def pause(self, *places: TopicPartition) -> None:
        self._paused |= set(places)

    def resume(self, *places: TopicPartition) -> None:
        self._paused -= set(places)

    def seek(self, place: TopicPartition, position: int) -> None:
        self._read[place] = position

    async def without_leader(self, places: Collection[TopicPartition]) -> set[TopicPartition]:
        return {place for place in places if place.topic in self.unled}

    async def seek_to_beginning(self, *places: TopicPartition) -> None:
        await self._answers(places)
        self._read |= dict.fromkeys(places, 0)

    async def end_offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        await self._answers(places)
        return {place: len(self.cards.get(place.topic, ())) for place in places}

    async def position(self, place: TopicPartition) -> int:
        return self._read[place]

    async def getmany(self, *, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Record]]:
        await asyncio.sleep(timeout_ms / 1000)
        if self.fails:
            self.fails = False
            raise KafkaConnectionError
        found = {}
        for place in self._read.keys() - self._paused:
            read = self._read[place]
            records = self.cards.get(place.topic, [])
            found[place] = [replace(one, offset=n) for n, one in enumerate(records)][read:]
            self._read[place] = max(read, len(records))
        return found

    async def _answers(self, places: Collection[TopicPartition]) -> None:
        """The client asks for a leader again and again, and says nothing."""
        while any(place.topic in self.unled for place in places):
            await asyncio.sleep(1)

    def announce(
        self, one: ToolsetCard, topic: Topic | None = None, key: str | None = None
    ) -> None:
        topic = topic or toolset_cards(one.toolset)
        record = Record((key or one.toolset).encode(), encode(one).value)
        self.cards.setdefault(topic.full_name(), []).append(record)


async def nothing_to_do() -> None:
    pass


Write = Callable[[Collection[ToolDefinition]], Awaitable[None]]


async def write_nothing(_: Collection[ToolDefinition]) -> None:
    pass


def reader_of(
    consumer: Consumer,
    known: KnownTools,
    named: Collection[str] = ("orders",),
    *,
    shared: bool = False,
    costly_work: CostlyWork | None = None,
    write: Write = write_nothing,
) -> CardReader:
    return CardReader(
        lambda: consumer,  # type: ignore[arg-type, return-value]
        lambda topic: topic.full_name(),
        known,
        prepare=nothing_to_do,
        toolsets=lambda: named,
        shared=shared,
        costly_work=costly_work or InPlace(),
        write=write,
    )


@contextmanager
def followed(reader: CardReader) -> Iterator[None]:
    reading = asyncio.create_task(reader.run())
    try:
        yield
    finally:
        reading.cancel()


Announce = Callable[[Consumer], None]


@pytest.mark.parametrize(
    "announce",
    [
        lambda bus: bus.announce(card("pay"), ECHO),
        lambda bus: bus.announce(card("pay"), ECHO, key="echo"),
        lambda bus: bus.announce(card("pay"), ORDERS, key="other"),
        lambda bus: bus.announce(card("pay", toolset="echo"), ORDERS, key="orders"),
        lambda bus: bus.announce(card("pay"), SHARED_CARDS),
        lambda bus: bus.cards[ECHO.full_name()].append(Record(b"orders", None)),
        lambda bus: bus.cards[ORDERS.full_name()].append(Record(b"orders", b"{}")),
        lambda bus: bus.cards[ORDERS.full_name()].append(Record(b"other", None)),
    ],
)
@on_virtual_time
async def test_no_server_speaks_for_another_toolset(announce: Announce) -> None:
    """Whoever may write the cards of `echo`, or the shared topic, changes nothing of `orders`."""
    bus, known = Consumer(there=of_both(SHARED_CARDS)), KnownTools()
    bus.announce(card("get"))
    bus.announce(card("say", toolset="echo"))
    reader = reader_of(bus, known, ("orders", "echo"))
    with followed(reader):
        await reader.until_read()
        before = dict(known.tools)
        assert set(before) == {"orders.get", "echo.say"}

        announce(bus)
        await reader.catch_up()
        assert known.tools == before
        assert (
            sum(known.refusals.values())
            == len(known.notes())
            == (0 if SHARED_CARDS.full_name() in bus.cards else 1)
        )


class OutOfTime(InPlace):
    """Ends all work."""

    async def run(self, owner: str, work: Any, *_: Any, **__: Any) -> Any:
        return EndedAtLimit("cpu_time")


@on_virtual_time
async def test_why_a_record_is_not_a_card_is_reported() -> None:
    """A server in another language had `the record is not a card`, and no more."""
    tools = [{"name": "get_order", "inputSchema": {"type": "object"}}]
    body = json.dumps({"kind": "toolset", "toolset": "orders", "tools": tools})
    lacks = "/tools/0/args_schema: found nothing; expected: Field required (missing)"
    cancel = encode(CANCEL).value
    for value, why in [(body.encode(), lacks), (cancel, "its kind is cancel")]:
        bus, known = Consumer({ORDERS.full_name(): [Record(b"orders", value)]}), KnownTools()
        reader = reader_of(bus, known)
        with followed(reader):
            await reader.until_read()
        assert known.notes() == [f"toolset orders: the record is not a card: {why}"]


@on_virtual_time
async def test_a_card_whose_schemas_take_too_long_is_not_taken() -> None:
    bus, known = Consumer(), KnownTools()
    bus.announce(card("get"))
    reader = reader_of(bus, known, costly_work=OutOfTime())
    with followed(reader):
        await reader.until_read()
        assert known.tools == {}
        assert known.notes() == [f"toolset orders: {TOO_COSTLY}"]


class Noting(InPlace):
    """Notes for whom it works, and takes a second each time."""

    def __init__(self) -> None:
        self.owners: list[str] = []

    async def run(self, owner: str, work: Any, *args: Any, **more: Any) -> Any:
        await asyncio.sleep(1)
        self.owners.append(owner)
        return await super().run(owner, work, *args, **more)


@on_virtual_time
async def test_a_toolset_with_thousands_of_cards_holds_up_no_other() -> None:
    bus, known, work = Consumer(there=of_both()), KnownTools(), Noting()
    for number in range(1_000):
        bus.announce(card(f"say-{number}", toolset="echo"))
    bus.announce(card("get"))
    with followed(reader_of(bus, known, ("orders", "echo"), costly_work=work)):
        await until(lambda: "orders.get" in known.tools)
        assert work.owners.count("toolset echo") <= 1


@on_virtual_time
async def test_costly_cards_do_not_hold_up_one_that_is_announced_later() -> None:
    bus, known, work = Consumer(there=of_both()), KnownTools(), Noting()
    for number in range(100):
        bus.announce(card(f"say-{number}", toolset="echo"))
    reader = reader_of(bus, known, ("orders", "echo"), costly_work=work)
    with followed(reader):
        await until(lambda: bool(work.owners))
        bus.announce(card("get"))
        await until(lambda: "orders.get" in known.tools, 3 * TAKE_S)
        await until(reader._is_read.is_set, 200)
        assert set(known.tools) == {"orders.get", "echo.say-99"}
        assert work.owners.count("toolset echo") == 100


@on_virtual_time
async def test_tools_that_are_announced_again_are_compiled_once() -> None:
    bus, known, work = Consumer(), KnownTools(), Noting()
    bus.there.add(tool_calls("orders").full_name())
    for number, names in enumerate([("get",), ("get",), ("get", "pay"), ("get", "pay")]):
        bus.announce(card(*names).model_copy(update={"server": f"orders-{number}"}))
    reader = reader_of(bus, known, costly_work=work)
    with followed(reader):
        await reader.until_read()
        assert (set(known.tools), len(work.owners)) == ({"orders.get", "orders.pay"}, 2)


@on_virtual_time
async def test_cards_of_the_shared_topic_are_read_where_asked_for_until_there_is_an_own_one() -> (
    None
):
    there = {SHARED_CARDS.full_name(), tool_calls("orders").full_name()}
    bus, known = Consumer(there=there), KnownTools()
    bus.announce(card("get"), SHARED_CARDS)
    bus.announce(card("pay"), SHARED_CARDS, key="echo")
    reader = reader_of(bus, known, ("orders", "echo"), shared=True)
    with followed(reader):
        await reader.until_read()
        assert set(known.tools) == {"orders.get"}

        bus.there.add(ORDERS.full_name())
        bus.announce(card("get", "ship"))
        await reader.catch_up()
        bus.announce(card("pay"), SHARED_CARDS)
        await reader.catch_up()
        assert set(known.tools) == {"orders.get", "orders.ship"}


@on_virtual_time
async def test_a_toolset_that_no_agent_names_is_not_read() -> None:
    bus, known, named = Consumer(there=of_both()), KnownTools(), {"echo"}
    bus.announce(card("get"))
    bus.announce(card("say", toolset="echo"))
    reader = reader_of(bus, known, named)
    with followed(reader):
        await reader.until_read()
        assert set(known.tools) == {"echo.say"}

        named.add("orders")
        await reader.catch_up()
        assert set(known.tools) == {"echo.say", "orders.get"}

        named.remove("echo")
        await reader.catch_up()
        assert set(known.tools) == {"orders.get"}


@on_virtual_time
async def test_a_toolset_is_used_from_when_its_topic_is_there_until_it_is_gone() -> None:
    calls = tool_calls("orders").full_name()

    consumer, known = Consumer(), KnownTools()
    consumer.announce(card("get"))
    reader = reader_of(consumer, known)
    reading = asyncio.create_task(reader.run())
    await reader.until_read()
    assert (known.tools, known.refused) == ({}, {"orders": NO_TOPIC})

    consumer.there.add(calls)
    await until(lambda: set(known.tools) == {"orders.get"}, LOOK_EVERY_S)
    consumer.announce(card("get", "pay"))
    await until(lambda: set(known.tools) == {"orders.get", "orders.pay"})

    consumer.there.remove(calls)
    await until(lambda: known.tools == {}, LOOK_EVERY_S + 1)
    assert known.refused == {"orders": NO_TOPIC}
    reading.cancel()
    await asyncio.wait([reading])


@on_virtual_time
async def test_catching_up_takes_until_what_was_announced_before_is_read() -> None:
    consumer, known = Consumer(), KnownTools()
    consumer.there.add(tool_calls("orders").full_name())
    reader = reader_of(consumer, known)
    reading = asyncio.create_task(reader.run())
    await reader.until_read()

    consumer.announce(card("get"))
    await asyncio.gather(reader.catch_up(), reader.catch_up())
    assert set(known.tools) == {"orders.get"}

    consumer.announce(card("get", "pay"))
    consumer.fails = True  # and is begun again
    await reader.catch_up()
    assert set(known.tools) == {"orders.get", "orders.pay"}
    reading.cancel()
    await asyncio.wait([reading])


@on_virtual_time
async def test_catching_up_finds_the_topic_of_a_toolset_that_was_made_since() -> None:
    consumer, known = Consumer(), KnownTools()
    consumer.announce(card("get"))
    reader = reader_of(consumer, known)
    reading = asyncio.create_task(reader.run())
    await reader.until_read()
    assert known.tools == {}

    consumer.there.add(tool_calls("orders").full_name())
    await reader.catch_up()
    assert set(known.tools) == {"orders.get"}
    reading.cancel()
    await asyncio.wait([reading])


@on_virtual_time
async def test_catching_up_ends_where_no_card_can_be_read() -> None:
    consumer = Consumer(there=set())
    reader = reader_of(consumer, KnownTools())
    reading = asyncio.create_task(reader.run())
    await reader.until_read()
    began = asyncio.get_running_loop().time()
    await reader.catch_up()
    assert asyncio.get_running_loop().time() - began <= AGAIN_AFTER_S

    reading.cancel()  # nothing reads any more, as while the broker is away
    await asyncio.wait([reading])
    await reader.catch_up()
    assert asyncio.get_running_loop().time() - began <= AGAIN_AFTER_S + CATCH_UP_S


def guarded(description: str = "") -> ToolsetCard:
    tool = card("pay").tools[0].model_copy(update={"approval": "always"})
    changed = tool.model_copy(update={"description": description})
    return ToolsetCard(toolset="orders", tools=(changed,))


def kept(one: ToolsetCard) -> Record:
    tool = one.tools[0]
    event = ToolAccepted(toolset=one.toolset, card=tool, at=datetime(2026, 1, 1, tzinfo=UTC))
    return Record(event.name.encode(), encode(event).value)


@on_virtual_time
async def test_what_is_accepted_is_read_before_any_card_and_heard_of_later() -> None:
    there = {one.full_name() for one in (ORDERS, tool_calls("orders"), ACCEPTED_TOOLS)}
    bus, known = Consumer(there=there), KnownTools()
    bus.announce(guarded("Pay all."))
    of_accepted = bus.cards.setdefault(ACCEPTED_TOOLS.full_name(), [])
    of_accepted += [kept(guarded()), Record(b"orders.get", kept(guarded("Pay all.")).value)]
    reader = reader_of(bus, known)
    with followed(reader):
        await reader.until_read()
        assert (known.tools, known.stopped) == ({}, {"orders.pay"})
        assert sum(known.refusals.values()) == 1

        of_accepted.append(kept(guarded("Pay all.")))
        await reader.catch_up()
        assert (set(known.tools), known.stopped) == ({"orders.pay"}, set())

        of_accepted += [kept(guarded()), Record(b"orders.pay", None)]
        await reader.catch_up()
        assert (set(known.tools), known.stopped) == ({"orders.pay"}, set())


@pytest.mark.parametrize("fails", [False, True])
@on_virtual_time
async def test_a_tool_that_needs_approval_is_written_as_it_is_seen_first(fails: bool) -> None:
    there = {one.full_name() for one in (ORDERS, tool_calls("orders"), ACCEPTED_TOOLS)}
    bus, known, failing = Consumer(there=there), KnownTools(), [fails]
    of_accepted = bus.cards.setdefault(ACCEPTED_TOOLS.full_name(), [])
    bus.announce(guarded())

    async def write(tools: Collection[ToolDefinition]) -> None:
        if failing.pop():
            raise KafkaConnectionError
        of_accepted.extend(kept(ToolsetCard(toolset="orders", tools=(t.card,))) for t in tools)
        failing.append(False)

    reader = reader_of(bus, known, write=write)
    with followed(reader):
        await reader.until_read()
        if fails:
            (note,) = known.notes()
            assert "accepted tools" in note
            failing.append(False)
            await reader.catch_up()
        await reader.catch_up()
        assert (len(of_accepted), known.accepted.unwritten, known.notes()) == (1, [], [])


@on_virtual_time
async def test_without_the_topic_of_accepted_tools_that_is_said() -> None:
    bus, known = Consumer(), KnownTools()
    bus.there.add(tool_calls("orders").full_name())
    bus.announce(guarded())
    reader = reader_of(bus, known)
    with followed(reader):
        await reader.until_read()
        assert set(known.tools) == {"orders.pay"}
        (note,) = known.notes()
        assert "answerbus topics apply" in note


@pytest.mark.parametrize("is_known", [False, True], ids=["at the start", "later"])
@on_virtual_time
async def test_a_topic_of_cards_without_a_leader_keeps_no_other_toolset_away(
    *, is_known: bool
) -> None:
    bus, known = Consumer(there=of_both()), KnownTools()
    bus.announce(card("say", toolset="echo"))
    bus.announce(card("get"))
    reader = reader_of(bus, known, ("orders", "echo"))
    bus.unled = set() if is_known else {ECHO.full_name()}
    with followed(reader):
        await reader.until_read()
        assert ("echo.say" in known.tools) is is_known
        bus.unled = {ECHO.full_name()}
        bus.announce(card("get", "pay"))
        await until(lambda: "orders.pay" in known.tools, 120)
        bus.unled = set()
        await until(lambda: "echo.say" in known.tools, 60)
