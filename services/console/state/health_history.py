"""The minutes in which workers called a profile unhealthy, for a day; pure."""

from collections.abc import Collection

from services.console.views.units import KEPT_MINUTES, MINUTE_MS

PROFILES_MAX = 100


class HealthHistory:
    """Takes what workers report, every few seconds."""

    def __init__(self) -> None:
        self._unhealthy: dict[int, set[str]] = {}

    def take(self, at_ms: int, unhealthy: Collection[str]) -> None:
        if not unhealthy:
            return
        minute = at_ms // MINUTE_MS
        found = self._unhealthy.setdefault(minute, set())
        found.update(sorted(unhealthy)[: PROFILES_MAX - len(found)])
        for old in [n for n in self._unhealthy if n <= minute - KEPT_MINUTES]:
            del self._unhealthy[old]

    def was_unhealthy(self, profile: str, begin_ms: int, end_ms: int) -> bool:
        """Whether a worker said so in that time."""
        return any(
            profile in self._unhealthy.get(n, ())
            for n in range(begin_ms // MINUTE_MS, -(-end_ms // MINUTE_MS))
        )
