"""A shadow over HTTP: it has the money of a day, holds nobody up, and holds no content."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest

from answerbus.compared import Compared
from answerbus.envelope import encode
from answerbus.request_key import RequestKey
from answerbus.topics import REQUESTS
from services.operators.adapters.shadow import AT_ONCE, WAITING_MAX, DropReason, Shadow
from services.operators.comparisons.live_draw import Drawn
from services.operators.comparisons.sample import Sampled
from services.operators.comparisons.shadow_day import PerDay
from services.operators.records.stored import RecordPosition, Stored
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Planner
from tests.providers.test_asking_again import CALL_MICRO_USD, Model, asking, planted, question
from tests.unit.operators.stored_examples import NOON_MS, stored

NIGHT = datetime(2026, 11, 26, 23, 59, tzinfo=UTC)
LIMIT_S = 10.0
NOTHING = PerDay()
PLENTY = PerDay(1_000, 10**9)
DAY = PerDay(2, 10_000)  # two calls, and more than what one can cost at worst


@dataclass
class Clock:
    at: datetime = NIGHT

    def now(self) -> datetime:
        return self.at


@dataclass
class Topics:
    """Records by their positions, and what is written."""

    records: dict[RecordPosition, Stored] = field(default_factory=dict)
    picked: int = 0
    written: list[Compared] = field(default_factory=list)

    def drawn(self, number: int) -> Drawn:
        asked = question(number)
        ids: dict[str, Any] = {"request_id": f"r-{number}", "workflow_id": f"order-{number}"}
        body = encode(asked.request.model_copy(update=ids)).value
        request = Stored(REQUESTS, 0, number, NOON_MS, b"", body, ())
        outcome = stored("result/text", NOON_MS, number, **ids, answer=asked.recorded.answer)
        self.records |= {request.place: request, outcome.place: outcome}
        sampled = Sampled(RequestKey(**ids), outcome.place, NOON_MS, request.place)
        return Drawn("default", sampled)

    async def pick(self, places: Iterable[RecordPosition]) -> Sequence[Stored]:
        self.picked += 1
        return [self.records[place] for place in places if place in self.records]

    async def write(self, compared: Compared) -> None:
        self.written.append(compared)


@dataclass
class Seen:
    """See ShadowObserver."""

    became: list[Compared | DropReason] = field(default_factory=list)

    def asked(self, original: str, compared: Compared) -> None:
        assert original == "default"
        self.became.append(compared)

    def dropped(self, original: str, why: DropReason) -> None:
        assert original == "default"
        self.became.append(why)

    async def until(self, count: int) -> list[Any]:
        async with asyncio.timeout(LIMIT_S):
            while len(self.became) < count:
                await asyncio.sleep(0)
        return [one if isinstance(one, str) else "asked" for one in self.became]


@dataclass
class It:
    shadow: Shadow
    clock: Clock
    topics: Topics
    seen: Seen
    planner: Planner


@asynccontextmanager
async def shadowing(
    model: Model, limit: PerDay = PLENTY, asked: PerDay = NOTHING, at_once: int = AT_ONCE
) -> AsyncIterator[It]:
    clock, topics, seen = Clock(), Topics(), Seen()
    async with asking(model, limit.micro_usd) as asker:
        asker.money.charged_micro_usd = asked.micro_usd
        own = replace(asker, clock=clock, slots=Slots(AT_ONCE))
        shadow = Shadow("default", own, limit, seen, asked.calls)
        tasks = [
            asyncio.create_task(shadow.ask_on(topics.pick, topics.write)) for _ in range(at_once)
        ]
        try:
            yield It(shadow, clock, topics, seen, asker.planner)
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)


async def test_answers_are_compared_and_written() -> None:
    async with shadowing(Model(planted)) as it:
        for number in (1, 3):
            it.shadow.put(it.topics.drawn(number))
        await it.seen.until(2)
    written = {one.request_id: one for one in it.topics.written}

    assert it.seen.became == it.topics.written
    assert {name: one.equal for name, one in written.items()} == {"r-1": True, "r-3": False}
    assert {one.comparison for one in written.values()} == {"new.SHADOWS.default.2026-11-26"}


@pytest.mark.parametrize("asked", [PerDay(0, DAY.micro_usd), PerDay(DAY.calls, 0)])
async def test_a_day_has_its_money_and_calls_and_a_clock_that_is_put_back_begins_none(
    asked: PerDay,
) -> None:
    """What a process before has asked counts."""
    days = (NIGHT, NIGHT + timedelta(days=1), NIGHT, NIGHT)
    async with shadowing(Model(planted), DAY, asked) as it:
        for number, at in enumerate(days):
            it.clock.at = at
            it.shadow.put(it.topics.drawn(number))
            await it.seen.until(number + 1)
        money = it.shadow._asker.money

    assert [one if isinstance(one, str) else one.comparison for one in it.seen.became] == [
        "over_budget",
        "new.SHADOWS.default.2026-11-27",
        "new.SHADOWS.default.2026-11-27",
        "over_budget",
    ]
    assert money.charged_micro_usd == 2 * CALL_MICRO_USD


async def test_a_shadow_that_hangs_holds_up_nobody_and_no_content() -> None:
    """Whoever puts a request is never waited for; what waits is a position, however long a text."""
    many, release = 10 * WAITING_MAX, asyncio.Event()
    async with shadowing(Model(planted)) as it:
        backend = it.planner.backends["new"]

        hanging = mock.Mock(ask=lambda *_, **__: release.wait())
        it.planner.backends = {"new": replace(backend, provider=hanging)}
        for number in range(AT_ONCE):
            it.shadow.put(it.topics.drawn(number))
        async with asyncio.timeout(LIMIT_S):
            while it.planner.backends["new"].limiter.slots.calling < AT_ONCE:
                await asyncio.sleep(0)
        for number in range(many):
            it.shadow.put(it.topics.drawn(number))  # returns at once: it is no coroutine

        assert it.seen.became == ["busy"] * (many - WAITING_MAX)
        assert it.topics.picked == AT_ONCE


async def test_what_retention_has_deleted_and_whom_nobody_can_ask_is_counted() -> None:
    async with shadowing(Model(planted)) as it:
        gone = it.topics.drawn(1)
        it.topics.records.clear()
        it.shadow.put(gone)

        assert await it.seen.until(1) == ["gone"]


async def test_once_it_is_over_what_waits_is_not_asked() -> None:
    model = Model(planted)
    async with shadowing(model, at_once=0) as it:
        for number in range(5):
            it.shadow.put(it.topics.drawn(number))
        it.shadow.end()
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(
                *(it.shadow.ask_on(it.topics.pick, it.topics.write) for _ in range(AT_ONCE))
            )

    assert (model.asked, it.topics.written, it.seen.became) == ([], [], [])


async def test_a_request_that_is_read_when_it_ends_is_not_asked() -> None:
    model, reading, go_on = Model(planted), asyncio.Event(), asyncio.Event()
    async with shadowing(model, at_once=0) as it:

        async def pick(places: Iterable[RecordPosition]) -> Sequence[Stored]:
            reading.set()
            await go_on.wait()
            return await it.topics.pick(places)

        it.shadow.put(it.topics.drawn(1))
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            group.create_task(it.shadow.ask_on(pick, it.topics.write))
            await reading.wait()
            it.shadow.end()
            go_on.set()

    assert (model.asked, it.topics.written, it.seen.became) == ([], [], [])
