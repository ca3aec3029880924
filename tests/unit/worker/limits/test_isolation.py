"""Who may call beside whom."""

import asyncio
import random

import pytest

from services.worker.limits.isolation import SHARED, Isolation, IsolationLevel
from tests.unit.worker.lane.virtual import on_virtual_time


class Calls:
    """What is inside, and what must not be."""

    def __init__(self) -> None:
        self.isolation = Isolation()
        self.inside: list[IsolationLevel] = []
        self.order: list[IsolationLevel] = []

    async def call(self, company: IsolationLevel, takes_s: float = 1.0) -> None:
        await self.isolation.enter(company)
        self.inside.append(company)
        self.order.append(company)
        self.check()
        try:
            await asyncio.sleep(takes_s)
        finally:
            self.inside.remove(company)
            self.isolation.leave(company)

    def check(self) -> None:
        tried = {company.lane for company in self.inside if company.lane is not None}
        assert len(tried) <= 1, "one lane at a time is tried"
        assert len(self.inside) == 1 or not any(company.alone for company in self.inside)


def alone(lane: int, rank: int = 4) -> IsolationLevel:
    return IsolationLevel(lane=lane, alone=True, rank=rank)


def trial(lane: int, rank: int = 2) -> IsolationLevel:
    return IsolationLevel(lane=lane, rank=rank)


@on_virtual_time
async def test_calls_go_on_side_by_side_with_the_trial_of_one_lane() -> None:
    calls = Calls()
    began = asyncio.get_running_loop().time()
    same = (trial(1), trial(1), SHARED, SHARED)
    await asyncio.gather(*(calls.call(company) for company in same))
    assert asyncio.get_running_loop().time() - began == 1.0


@on_virtual_time
async def test_an_exclusive_call_waits_for_the_others_and_they_for_it() -> None:
    calls = Calls()
    first = asyncio.create_task(calls.call(SHARED, 5.0))
    await asyncio.sleep(0)
    lone = asyncio.create_task(calls.call(alone(0)))
    await asyncio.sleep(0)
    late = asyncio.create_task(calls.call(SHARED))
    await asyncio.gather(first, lone, late)
    assert calls.order == [SHARED, alone(0), SHARED]


@on_virtual_time
async def test_the_less_suspect_go_first_and_delay_no_other() -> None:
    calls = Calls()
    companies = [trial(1), alone(2, 9), trial(3, 3), SHARED, alone(4, 5)]
    await asyncio.gather(*(calls.call(company) for company in companies))
    assert calls.order == [trial(1), SHARED, trial(3, 3), alone(4, 5), alone(2, 9)]


@on_virtual_time
async def test_a_cancelled_waiter_delays_no_other() -> None:
    calls = Calls()
    first = asyncio.create_task(calls.call(SHARED, 100.0))
    await asyncio.sleep(0)
    lone = asyncio.create_task(calls.call(alone(0)))
    late = asyncio.create_task(calls.call(SHARED))
    await asyncio.sleep(1)
    assert len(calls.inside) == 1
    lone.cancel()
    await asyncio.wait([late], timeout=2)
    assert late.done()
    await first


async def each_second(calls: Calls, seconds: int) -> list[float]:
    """How long calls waited that came one each second, beside those of suspects."""
    waited = list[float]()

    async def one() -> None:
        came = asyncio.get_running_loop().time()
        await calls.call(SHARED)
        waited.append(asyncio.get_running_loop().time() - came - 1.0)

    async with asyncio.TaskGroup() as group:
        for _ in range(seconds):
            group.create_task(one())
            await asyncio.sleep(1)
    return waited


@pytest.mark.parametrize("lanes", [1, 3, 12])
@pytest.mark.parametrize("call_s", [0.1, 2.0, 60.0])
@on_virtual_time
async def test_others_wait_for_one_lone_call_however_many_are_to_come(
    lanes: int, call_s: float
) -> None:
    """For its own time, and before for the end of the calls that run, here of 1 s."""

    async def lane(calls: Calls, number: int) -> None:
        for _ in range(5):
            await calls.call(alone(number), call_s)

    calls = Calls()
    async with asyncio.TaskGroup() as group:
        others = group.create_task(each_second(calls, 300))
        for number in range(lanes):
            group.create_task(lane(calls, number))
    assert max(others.result()) <= call_s + 1.0


@on_virtual_time
async def test_lone_calls_follow_each_other_where_nobody_else_waits() -> None:
    calls, began = Calls(), asyncio.get_running_loop().time()
    await asyncio.gather(*(calls.call(alone(lane), 2.0) for lane in range(5)))
    assert asyncio.get_running_loop().time() - began == 10.0


@pytest.mark.parametrize("seed", range(20))
@on_virtual_time
async def test_whatever_happens_each_makes_its_call_in_the_end(seed: int) -> None:
    chance = random.Random(seed)

    calls = Calls()
    tasks = []
    for _ in range(60):
        kinds = (SHARED, trial(chance.randrange(3), chance.randint(2, 5)))
        company = chance.choice((*kinds, alone(chance.randrange(3), chance.randint(4, 9))))
        tasks.append(asyncio.create_task(calls.call(company, chance.random())))
        await asyncio.sleep(chance.choice((0, 0.1, 1)))
        if chance.random() < 0.2:
            chance.choice(tasks).cancel()
    await asyncio.wait(tasks, timeout=600)
    assert all(task.done() for task in tasks)
    assert (calls.isolation._others, calls.isolation._suspect_calls) == (0, 0)
    assert not calls.isolation._waiting
