"""Checks regularly, without cost, whether unreachable providers are back."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from answerbus.client.diagnosis import describe_error_for_log
from services.worker.planning.planner import Backend

EVERY_S = 5.0
LOOK_EVERY_S = 0.5

_log = logging.getLogger(__name__)


class ProfileMonitor:
    """Without it, a profile without requests would be called unhealthy for ever, or healthy.

    When one server is found to be away, all other profiles are checked at once: what takes one
    server away (a network, a proxy, a machine) often takes others with it. Backends are those of
    the moment, since settings may change.
    """

    def __init__(
        self,
        backends: Callable[[], Mapping[str, Backend]],
        every_s: float = EVERY_S,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._backends, self._every_s = backends, every_s
        self._look_every_s = min(look_every_s, every_s)
        self._known: dict[str, str] = {}
        self._away: frozenset[str] = frozenset()
        self._next: dict[str, float] = {}  # when a profile is asked again, in loop time
        self._asked: set[str] = set()  # whose check is not over

    async def run(self) -> None:
        """Look again and again; log what has changed. A slow check keeps no other waiting."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._report()
                backends = self._backends()
                for name in self._due(backends):
                    self._asked.add(name)
                    group.create_task(self._check(name, backends[name]))
                await asyncio.sleep(self._look_every_s)

    def _due(self, backends: Mapping[str, Backend]) -> list[str]:
        """Those away each `every_s`; the others when one more has been found away."""
        now = asyncio.get_running_loop().time()
        away = frozenset(name for name, one in backends.items() if one.limiter.wants_check)
        found, self._away = away - self._away, away
        for name in found:
            self._next[name] = now + self._every_s
        due = away if not found else backends.keys()
        return [n for n in due if n not in self._asked and self._next.get(n, now) <= now]

    async def _check(self, name: str, backend: Backend) -> None:
        try:
            readiness = await backend.provider.preflight()
            if self._backends().get(name) is backend:
                backend.limiter.checked(readiness)
        except Exception as error:  # providers of plugins may raise anything
            _log.exception("profile %s: check failed: %s", name, describe_error_for_log(error))
        finally:
            self._asked.discard(name)
            self._next[name] = asyncio.get_running_loop().time() + self._every_s

    def _report(self) -> None:
        problems = {name: one.limiter.problem for name, one in self._backends().items()}
        found = {name: problem.text for name, problem in problems.items() if problem}
        for name in sorted(found.keys() - self._known.keys()):
            _log.warning("profile %s is unhealthy: %s", name, found[name])
        for name in sorted(self._known.keys() - found.keys()):
            _log.info("profile %s is healthy again", name)
        self._known = found
