"""Open runs outlive agents in the settings: the cards of their tools are read, too."""

import asyncio

import pytest

from answerbus.topics import ACCEPTED_TOOLS, SHARED_CARDS, tool_calls
from services.worker.adapters.kafka.card_reader import TAKE_S
from services.worker.adapters.kafka.run_consumers import _once_wanted
from services.worker.core.run.accepted_tools import tools_of
from services.worker.core.run.known_tools import NOT_READ, KnownTools
from services.worker.core.run.postponed_calls import POSTPONED
from tests.unit.worker.adapters.kafka.test_card_reader import (
    ORDERS,
    Consumer,
    Noting,
    followed,
    guarded,
    kept,
    reader_of,
)
from tests.unit.worker.core.run.test_known_tools import card
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import until

(PAY,) = tools_of(guarded())  # as an open run has it
FREE = PAY.model_copy(update={"card": PAY.card.model_copy(update={"approval": "never"})})
THERE = {one.full_name() for one in (ORDERS, tool_calls("orders"), ACCEPTED_TOOLS)}
AGAIN_S = POSTPONED.total_seconds()


def with_accepted() -> Consumer:
    return Consumer({ACCEPTED_TOOLS.full_name(): [kept(guarded())]}, there=set(THERE))


@pytest.mark.parametrize("has_changed", [False, True])
@on_virtual_time
async def test_a_worker_without_agents_reads_the_card_before_a_call(*, has_changed: bool) -> None:
    bus, known = with_accepted(), KnownTools()
    bus.announce(guarded("Pay all." if has_changed else ""))
    reading = asyncio.create_task(_once_wanted(reader_of(bus, known, ()), known))
    await asyncio.sleep(60)
    assert not known.is_stopped(FREE)
    assert (known.wanted, bus._read) == (set(), {}), "nothing is read for plain requests"

    assert known.is_stopped(PAY)
    assert known.notes() == [f"toolset orders: {NOT_READ}"]
    await asyncio.sleep(AGAIN_S)
    assert known.is_stopped(PAY) is has_changed
    assert known.is_stopped(FREE) is has_changed

    bus.cards[ACCEPTED_TOOLS.full_name()].append(kept(guarded("Pay all.")))
    await until(lambda: not known.is_stopped(PAY), 2)
    reading.cancel()
    await asyncio.wait([reading])


@on_virtual_time
async def test_a_change_is_found_and_accepted_after_the_agent_is_gone() -> None:
    bus, known, named = with_accepted(), KnownTools(), {"orders"}
    bus.announce(guarded())
    reader = reader_of(bus, known, named)
    with followed(reader):
        await reader.until_read()
        assert not known.is_stopped(PAY)

        named.clear()
        await reader.catch_up()
        bus.announce(guarded("Pay all."))
        assert known.is_stopped(PAY), "its card is not followed any more"
        await until(lambda: known.stopped == {"orders.pay"}, AGAIN_S)

        bus.cards[ACCEPTED_TOOLS.full_name()].append(kept(guarded("Pay all.")))
        await until(lambda: not known.is_stopped(PAY), 2)


@on_virtual_time
async def test_a_tool_that_was_stopped_when_its_agent_went_can_be_accepted() -> None:
    bus, known, named = with_accepted(), KnownTools(), {"orders"}
    bus.announce(guarded("Pay all."))
    reader = reader_of(bus, known, named)
    with followed(reader):
        await reader.until_read()
        named.clear()
        await reader.catch_up()
        bus.cards[ACCEPTED_TOOLS.full_name()].append(kept(guarded("Pay all.")))
        await reader.catch_up()
        assert known.is_stopped(PAY)
        await asyncio.sleep(AGAIN_S)
        assert not known.is_stopped(PAY)


@on_virtual_time
async def test_a_toolset_without_a_card_keeps_no_call_of_an_open_run_back() -> None:
    for there in (THERE, THERE - {ORDERS.full_name()}):
        bus, known = with_accepted(), KnownTools()
        bus.there = there
        with followed(reader_of(bus, known, ())):
            assert known.is_stopped(PAY)
            await asyncio.sleep(AGAIN_S)
            assert not known.is_stopped(PAY)


@on_virtual_time
async def test_a_card_that_cannot_be_read_yet_keeps_calls_that_need_approval_back() -> None:
    bus, known = with_accepted(), KnownTools()
    bus.announce(guarded("Pay all."))
    bus.there |= {one.replace("orders", "echo") for one in THERE}
    bus.announce(card("say", toolset="echo"))
    bus.unled = {ORDERS.full_name()}
    reader = reader_of(bus, known, ("orders", "echo"))
    with followed(reader):
        await reader.until_read()
        assert set(known.tools) == {"echo.say"}
        assert known.is_stopped(PAY)

        bus.unled = set()
        await until(lambda: known.stopped == {"orders.pay"}, AGAIN_S)


@on_virtual_time
async def test_costly_cards_of_another_toolset_keep_no_call_of_an_open_run_back() -> None:
    bus, known, work = with_accepted(), KnownTools(), Noting()
    bus.there |= {one.replace("orders", "echo") for one in THERE}
    bus.announce(guarded())
    for number in range(100):
        bus.announce(card(f"say-{number}", toolset="echo"))
    reader = reader_of(bus, known, ("orders", "echo"), costly_work=work)
    with followed(reader):
        await until(lambda: not known.is_stopped(PAY), 3 * TAKE_S)
        assert not reader._is_read.is_set()


@on_virtual_time
async def test_a_toolset_that_is_named_later_has_its_card_of_the_shared_topic() -> None:
    bus, known, named = with_accepted(), KnownTools(), {"echo"}
    bus.there = {SHARED_CARDS.full_name(), tool_calls("orders").full_name()}
    bus.announce(card("get"), SHARED_CARDS)
    reader = reader_of(bus, known, named, shared=True)
    with followed(reader):
        await reader.until_read()
        assert known.tools == {}

        named.add("orders")
        await reader.catch_up()
        assert set(known.tools) == {"orders.get"}

        named.remove("orders")
        bus.announce(guarded(), SHARED_CARDS)
        await reader.catch_up()
        assert known.is_stopped(PAY)
        await asyncio.sleep(AGAIN_S)
        assert set(known.tools) == {"orders.pay"}
