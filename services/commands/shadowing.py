"""The composition root of `answerbus shadow`."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from answerbus.client.bus import Bus
from answerbus.client.errors import BusRefused, BusUnavailable
from answerbus.compared import Compared
from services.command_line import bus_of
from services.commands.asked_profiles import OnCompared, evaluating, planning, with_topic
from services.commands.long_task import slept, stopping
from services.commands.shadow_health import serving_health
from services.operators.adapters import shadowing
from services.operators.adapters.asking_again import Asker
from services.operators.adapters.shadow import AT_ONCE, DropReason, Shadow
from services.operators.comparisons.live_draw import LiveDraw
from services.operators.comparisons.money_budget import MoneyBudget
from services.operators.comparisons.shadow_day import PerDay
from services.settings.section import MICRO_USD
from services.settings.settings import Settings, SetUpError
from services.settings.shadow import ShadowSettings
from services.telemetry.counts import Counts
from services.telemetry.metrics import SHADOW_ASKED, SHADOW_DROPPED, SHADOW_SPENT
from services.worker.adapters.clock import SystemClock
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Planner

AGAIN_S = 10.0  # after Kafka could not be used

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShadowCounter:
    """See ShadowObserver: counts, and sends evaluations to a collector."""

    counts: Counts
    evaluated: OnCompared

    def asked(self, original: str, compared: Compared) -> None:
        again = compared.again
        shadow, charged = again.profile or "", compared.charged_micro_usd
        self.counts.add(SHADOW_ASKED, original, shadow, again.outcome)
        self.counts.add(SHADOW_SPENT, original, shadow, by=charged)
        self.evaluated(compared)

    def dropped(self, original: str, why: DropReason) -> None:
        self.counts.add(SHADOW_DROPPED, original, why)


async def run(settings: Settings, health: str | None) -> None:
    """Ask until SIGTERM or SIGINT. Raises SetUpError, and BusUnavailable at the start."""
    chosen = {name: one.shadow for name, one in settings.profiles.items() if one.shadow}
    if not chosen:
        raise SetUpError(
            "No profile has a shadow: set one, such as `profiles.default.shadow = "
            '{profile = "new", share = 0.05, usd_per_day = 5}`.'
        )
    bus, counts, names = bus_of(settings.kafka), Counts(), {one.profile for one in chosen.values()}
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stopping())
        made = planning(settings, bus, names, has_runs=False)
        planner = await stack.enter_async_context(made)
        evaluated = evaluating(settings.telemetry, planner, "shadow")
        observer = ShadowCounter(counts, await stack.enter_async_context(evaluated))
        await with_topic(bus, settings.kafka)
        shadows = await _shadows(bus, chosen, planner, observer)
        forgotten = partial(observer.dropped, why="forgotten")
        draw = LiveDraw({name: one.share for name, one in chosen.items()}, forgotten)
        if health is not None:
            await stack.enter_async_context(serving_health(health, counts))
        await _follow(bus, shadows, draw, stop)


async def _shadows(
    bus: Bus, chosen: Mapping[str, ShadowSettings], planner: Planner, observer: ShadowCounter
) -> dict[str, Shadow]:
    """What was asked today counts, by the topic: also by a process before."""
    clock, made = SystemClock(), dict[str, Shadow]()
    today = await shadowing.asked_on(bus, clock.now().date(), chosen)
    for name, one in chosen.items():
        limit = PerDay(one.calls_per_day, round(one.usd_per_day * MICRO_USD))
        money = MoneyBudget(limit.micro_usd, today[name].micro_usd)
        asker = Asker(planner, one.profile, money, Slots(AT_ONCE), clock)
        made[name] = Shadow(name, asker, limit, observer, today[name].calls)
        _log.info("%s is asked %g %% of what %s answers", one.profile, 100 * one.share, name)
    return made


async def _follow(
    bus: Bus, shadows: Mapping[str, Shadow], draw: LiveDraw, stop: asyncio.Event
) -> None:
    """Where Kafka goes away, it begins again with what is answered after that."""
    while not stop.is_set():
        try:
            await shadowing.shadow(bus, shadows, draw, stop)
        except BusRefused:
            raise
        except BusUnavailable as error:
            _log.warning("Kafka cannot be used, again in %g s: %s", AGAIN_S, error)
            await slept(stop, AGAIN_S)
