"""Slots stand empty for no longer than it takes to fill them, and no call is one too many."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from services.worker.core.limits.fair_queue import FairKey
from services.worker.limits.slots import Reservation, Slots
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.limits.holding import calling, key_of, placed

SPEND_S = 0.05


class Meter:
    """What is in flight, over time."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.now_calling = self.most = self.ended = 0
        self.busy_s = 0.0
        self.waited_with_permit_s: list[float] = []

    async def work(self, key: str, call_s: float) -> None:
        async with placed(self.slots, key):
            await asyncio.sleep(SPEND_S)
            permitted = now()
            async with calling(self.slots, SPEND_S):
                self.waited_with_permit_s.append(now() - permitted)
                self.now_calling += 1
                self.most = max(self.most, self.now_calling)
                try:
                    await asyncio.sleep(call_s)
                finally:
                    self.now_calling -= 1
                self.busy_s += call_s
                self.ended += 1


def now() -> float:
    return asyncio.get_running_loop().time()


def measured(limit: int, calls: int, call_s: float) -> tuple[Meter, float]:
    meters = []

    async def main() -> float:
        meters.append(Meter(Slots(limit)))
        began = now()
        await asyncio.gather(*(meters[0].work(f"w-{n % 7}", call_s) for n in range(calls)))
        return now() - began

    took_s = run(main())
    return meters[0], took_s


@pytest.mark.wide
@pytest.mark.parametrize(("limit", "call_s"), [(10, 1.0), (100, 1.0), (100, 0.1), (20, 0.001)])
def test_slots_are_kept_busy_while_spends_are_committed(limit: int, call_s: float) -> None:
    calls = limit * 60
    meter, took_s = measured(limit, calls, call_s)

    assert meter.most == limit
    if call_s >= SPEND_S:
        assert meter.busy_s / (limit * took_s) > 0.96
    assert (meter.slots.reserved, meter.slots.calling) == (0, 0)


@pytest.mark.parametrize(("limit", "call_s"), [(1, 60.0), (10, 30.0), (100, 60.0)])
def test_no_call_waits_long_with_an_aging_permit(limit: int, call_s: float) -> None:
    meter, _ = measured(limit, limit * 20, call_s)

    assert max(meter.waited_with_permit_s) < 1.0


@on_virtual_time
async def test_a_limit_that_shrinks_ends_no_call_and_starts_none() -> None:
    slots = Slots(10)
    meter = Meter(slots)
    tasks = [asyncio.create_task(meter.work(f"w-{n % 7}", 1.0)) for n in range(30)]
    await asyncio.sleep(0.5)
    slots.limit = 2
    assert meter.now_calling == 10
    await asyncio.sleep(1.0)
    assert meter.now_calling <= 2
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("moment_s", [0.0, 0.02, 0.06, 0.5, 1.03, 1.07])
@on_virtual_time
async def test_who_is_cancelled_gives_everything_back(moment_s: float) -> None:
    slots = Slots(3)
    meter = Meter(slots)
    tasks = [asyncio.create_task(meter.work(f"w-{n}", 1.0)) for n in range(20)]
    await asyncio.sleep(moment_s)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.wait(tasks)

    assert meter.ended >= 10
    assert (slots.reserved, slots.calling, meter.most) == (0, 0, min(3, meter.most))


async def place(slots: Slots) -> None:
    async with placed(slots):
        await asyncio.sleep(1.0)


async def slot(slots: Slots) -> None:
    async with calling(slots):
        await asyncio.sleep(1.0)


@pytest.mark.parametrize("take", [place, slot])
@on_virtual_time
async def test_what_is_given_in_the_moment_of_cancelling_is_given_back(
    take: Callable[[Slots], Coroutine[Any, Any, None]],
) -> None:
    slots = Slots(1)
    holder = asyncio.create_task(take(slots))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(take(slots))
    await holder
    waiting.cancel()
    await asyncio.wait([waiting])

    assert (slots.reserved, slots.calling) == (0, 0)
    await take(slots)


@pytest.mark.parametrize(("limit", "most"), [(1, 1), (3, 3), (4, 3), (16, 14), (100, 88)])
@on_virtual_time
async def test_one_key_leaves_places_for_others(limit: int, most: int) -> None:
    slots = Slots(limit)
    meter = Meter(slots)
    crowd = [asyncio.create_task(meter.work("crowd", 60.0)) for _ in range(3 * limit)]
    await asyncio.sleep(1.0)
    assert meter.now_calling == most
    assert slots.is_awaited
    began = now()
    if most < limit:
        await asyncio.gather(*(meter.work(f"w-{n}", 1.0) for n in range(limit - most)))
        assert now() - began < 1.2
    await asyncio.gather(*crowd)
    assert (slots.reserved, slots.calling) == (0, 0)
    assert not slots._reserved_of


class Watched(Slots):
    """Counts how often it is asked for the share of a key."""

    looks = 0

    def _has_share(self, key: FairKey) -> bool:
        self.looks += 1
        return super()._has_share(key)


def test_a_full_limit_looks_at_none_of_those_that_wait() -> None:
    """Each call that ends asks twice; a look at all that wait was half of a worker's CPU time."""
    limit, waiting = 10, 1_000

    async def main() -> tuple[int, int]:
        slots = Watched(limit)
        held = [Reservation(key_of(f"held-{n}")) for n in range(limit)]
        asked = [*held, *(Reservation(key_of(f"w-{n}")) for n in range(waiting))]
        tasks = [asyncio.create_task(slots.enter(one)) for one in asked]
        await asyncio.sleep(0)
        while_full = slots.looks
        slots.leave(held.pop())
        after_one = slots.looks
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return while_full, after_one

    while_full, after_one = run(main())
    assert while_full <= 3 * limit
    assert after_one - while_full <= 3


@on_virtual_time
async def test_what_is_free_is_given_at_once_and_nobody_who_waits_is_overtaken() -> None:
    slots = Slots(1)
    first, second, third = (Reservation(key_of(name)) for name in "abc")
    assert slots.enter_at_once(first)
    assert slots.begin_at_once(first, 0.0)
    waiting = asyncio.create_task(slots.enter(second))
    calling = asyncio.create_task(slots.begin_call(second, 0.0))
    await asyncio.sleep(0)

    slots.leave(first)
    assert not slots.enter_at_once(third), "it belongs to the one who waited"
    assert not slots.begin_at_once(third, 0.0)

    await asyncio.gather(waiting, calling)
    slots.leave(second)
    assert slots.enter_at_once(third)
    assert slots.begin_at_once(third, 0.0)


@on_virtual_time
async def test_a_gate_that_asks_for_time_gives_nothing_at_once() -> None:
    class Closed:
        def admit(self, asked: Reservation) -> float:
            return 1.0

        def left(self, reservation: Reservation) -> None:
            raise AssertionError("nobody was in")

    slots = Slots(1, Closed())
    assert not slots.enter_at_once(Reservation())
    assert (slots.reserved, slots.calling) == (0, 0)
