"""Asks the providers that were away, without cost, whether they are back."""

import asyncio
import logging
from collections.abc import Mapping

from services.worker.plans import Backend

EVERY_S = 5.0

_log = logging.getLogger(__name__)


class ProfileMonitor:
    """Without it, a profile without requests would be called unhealthy for ever."""

    def __init__(self, backends: Mapping[str, Backend], every_s: float = EVERY_S) -> None:
        self._backends, self._every_s = backends, every_s
        self._known: dict[str, str] = {}

    async def run(self) -> None:
        """Look again and again; log what has changed."""
        while True:
            self._tell()
            await asyncio.sleep(self._every_s)
            await self._check()

    async def _check(self) -> None:
        due = [found for found in self._backends.values() if found.limiter.wants_check]
        for backend, readiness in zip(
            due, await asyncio.gather(*(one.provider.preflight() for one in due)), strict=True
        ):
            backend.limiter.checked(readiness)

    def _tell(self) -> None:
        found = {name: why for name, one in self._backends.items() if (why := one.limiter.problem)}
        for name in sorted(found.keys() - self._known.keys()):
            _log.warning("profile %s is unhealthy: %s", name, found[name])
        for name in sorted(self._known.keys() - found.keys()):
            _log.info("profile %s is healthy again", name)
        self._known = found
