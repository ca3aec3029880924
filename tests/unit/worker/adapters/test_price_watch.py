"""A price that the list names for a day to come holds from that day on, without a start."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from unittest import mock

from answerbus.registry import Registry
from answerbus.request import Request
from services.settings.profiles import Profile
from services.worker.adapters import backends, price_watch
from services.worker.adapters.price_watch import EVERY_S, reprice, watch_prices
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.tariff import Tariff
from services.worker.planning.planner import Planner
from tests.providers.test_prices import profile
from tests.tariffs import flat
from tests.unit.worker.builders import body
from tests.unit.worker.lane.virtual import on_virtual_time, run

DAY = datetime(2026, 12, 1, tzinfo=UTC)
BEFORE, AFTER = flat(2, 10), flat(4, 20)
PROFILE = profile({"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"})


@dataclass
class LoopClock:
    """The loop's time, from so long before the day."""

    before: timedelta
    began: float

    def now(self) -> datetime:
        return DAY - self.before + timedelta(seconds=asyncio.get_running_loop().time() - self.began)


def listed(_: Profile, now: datetime) -> Tariff:
    return AFTER if now >= DAY else BEFORE


def planner_at(clock: LoopClock) -> Planner:
    return Planner(backends.build({"default": PROFILE}, clock), Registry())


def plan_of(planner: Planner) -> Plan:
    found = planner.plan(Request.model_validate(body()))
    assert isinstance(found, Plan)
    return found


def test_a_price_to_come_holds_from_its_first_moment_on() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(timedelta(hours=5, seconds=7.5), loop.time())
        planner = planner_at(clock)
        reprice(planner, {"default": BEFORE})
        watching = asyncio.create_task(watch_prices(planner, lambda: {"default": PROFILE}, clock))

        await asyncio.sleep(clock.before.total_seconds() - 1)
        old = plan_of(planner)
        assert old.profile.tariff == BEFORE
        assert planner.backend_of(old) is not None

        await asyncio.sleep(1.01)
        assert plan_of(planner).profile.tariff == AFTER
        assert planner.backend_of(old) is None  # who waits with the old price reserves anew
        new = planner.backends["default"]

        await asyncio.sleep(10 * EVERY_S)
        assert planner.backends["default"] is new
        watching.cancel()

    with mock.patch.object(price_watch, "tariff_of", listed):
        run(main())


@on_virtual_time
async def test_only_the_price_of_a_profile_changes() -> None:
    planner = planner_at(LoopClock(timedelta(), 0.0))
    before = planner.backends["default"]

    assert reprice(planner, {"default": AFTER, "gone": AFTER}) == ["default"]
    assert reprice(planner, {"default": AFTER}) == []

    facts = replace(before.facts, tariff=AFTER)
    assert planner.backends == {"default": replace(before, facts=facts)}
    assert planner.backends["default"].limiter is before.limiter
