"""Puts prices into force when they begin to hold: a list also names prices to come."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from services.settings.profiles import Profile
from services.worker.adapters.tariffs import tariff_of
from services.worker.core.attempt.tariff import Tariff
from services.worker.planning.planner import Planner
from services.worker.ports.clock import Clock

EVERY_S = 60.0

_log = logging.getLogger(__name__)


async def watch_prices(
    planner: Planner, profiles: Callable[[], Mapping[str, Profile]], clock: Clock
) -> None:
    """Look at the beginning of each minute; calls under way are charged as they were reserved.

    Profiles are those of the moment, since settings may change.
    """
    while True:
        now = clock.now()
        await asyncio.sleep(EVERY_S - (now.second + now.microsecond / 1_000_000))
        now = clock.now()
        tariffs = {name: tariff_of(profile, now) for name, profile in profiles().items()}
        for name in reprice(planner, tariffs):
            _log.info("profile %s has another price from now on", name)


def reprice(planner: Planner, tariffs: Mapping[str, Tariff | None]) -> list[str]:
    """Plan with these prices from now on; gives the profiles whose price has changed."""
    backends = dict(planner.backends)
    changed = [
        name
        for name, tariff in tariffs.items()
        if name in backends and backends[name].facts.tariff != tariff
    ]
    for name in changed:
        backend = backends[name]
        backends[name] = replace(backend, facts=replace(backend.facts, tariff=tariffs[name]))
    planner.backends = backends
    return changed
