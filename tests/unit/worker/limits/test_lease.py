"""What counts as a call in flight: one that its provider works on, and not one that waits."""

import asyncio

import pytest

from services.worker.limits.isolation import Isolation
from services.worker.limits.lease import CallLease
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Slots
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.limits.holding import key_of

CALL_S = 10.0
SPEND_S = 2.0  # long, so that many have a place beside those who call


def lease_of(workflow: str, limiter: ProfileLimiter, slots: Slots) -> CallLease:
    return CallLease(limiter, slots, Isolation(), key=key_of(workflow))


class Meter:
    """The calls that a provider had at once, and the most that the limiter told of."""

    def __init__(self, limiter: ProfileLimiter, slots: Slots) -> None:
        self._limiter, self._slots = limiter, slots
        self.at_provider = self.most = self.told = 0

    async def call(self, number: int) -> None:
        lease = lease_of(f"w-{number}", self._limiter, self._slots)
        try:
            await lease.enter()
            await asyncio.sleep(SPEND_S)
            await lease.begin_call(SPEND_S)
            lease.call_begins()
            self.at_provider += 1
            self.most = max(self.most, self.at_provider)
            await asyncio.sleep(CALL_S)
            self.at_provider -= 1
            lease.report(answered(), CALL_S)
        finally:
            lease.leave()

    async def watch(self) -> None:
        while True:
            self.told = max(self.told, self._limiter.in_flight)
            await asyncio.sleep(0.1)


@on_virtual_time
async def test_calls_that_wait_for_the_workers_own_limit_are_not_in_flight() -> None:
    """20 of 20, and not 26 of 20: an autoscaler divides the one by the other."""
    limiter, slots = ProfileLimiter(100), Slots(20)
    meter = Meter(limiter, slots)
    watching = asyncio.create_task(meter.watch())
    await asyncio.gather(*(meter.call(number) for number in range(200)))
    watching.cancel()

    assert (meter.most, meter.told, limiter.in_flight, limiter.slots.calling) == (20, 20, 0, 0)


@on_virtual_time
async def test_a_provider_that_was_not_called_is_not_silent() -> None:
    """Its calls wait for those of another profile, which take all that the worker may have."""
    slow, other, slots = ProfileLimiter(1), ProfileLimiter(1), Slots(1)
    first, second = lease_of("w-1", slow, slots), lease_of("w-2", other, slots)
    await first.enter()
    await first.begin_call(SPEND_S)
    first.call_begins()
    slots.limit += 1  # room for a second place, and then for none to call
    await second.enter()
    slots.limit -= 1
    waiting = asyncio.create_task(second.begin_call(SPEND_S))
    await asyncio.sleep(100)

    assert slow.silent_s == pytest.approx(100)
    assert other.silent_s == 0.0
    first.leave()
    await waiting
    second.call_begins()
    await asyncio.sleep(5)
    assert other.silent_s == pytest.approx(5)
    second.leave()


@on_virtual_time
async def test_a_lease_that_never_called_leaves_no_call() -> None:
    limiter, slots = ProfileLimiter(1), Slots(1)
    lease = lease_of("w-1", limiter, slots)
    await lease.enter()
    await lease.begin_call(SPEND_S)
    lease.leave()
    lease.leave()

    assert (limiter.in_flight, limiter.slots.calling, slots.calling) == (0, 0, 0)


@on_virtual_time
async def test_what_is_there_is_taken_at_once_and_the_rest_is_waited_for() -> None:
    limiter, slots = ProfileLimiter(2), Slots(1)
    first, second = lease_of("a", limiter, slots), lease_of("b", limiter, slots)
    assert first.enters_at_once()
    assert first.begins_at_once(0.0)
    first.call_begins()

    assert not second.enters_at_once(), "the worker has one place"
    waiting = asyncio.create_task(second.enter())
    await asyncio.sleep(CALL_S)
    assert not waiting.done()
    assert limiter.slots.reserved == 2, "it has its place at the profile, and that once"
    first.leave()
    await waiting
    assert second.begins_at_once(0.0)
    second.leave()

    held = limiter.slots.reserved, limiter.slots.calling, slots.reserved, slots.calling
    assert held == (0, 0, 0, 0)
