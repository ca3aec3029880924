"""So much per minute, paced: a bucket that fills steadily, and is small, so that bursts are."""

from dataclasses import dataclass

MINUTE_S = 60.0
BURST_SHARE = 1 / 40  # of a minute's allowance may be used at once; the rest is what flows


@dataclass(slots=True)
class TokenBucket:
    """At most `per_minute` units in any minute; all times are seconds on one clock.

    What costs more than the bucket holds is let through when it is full, and is paid off after.
    """

    per_minute: float
    level: float = -1.0
    filled_at: float | None = None

    def wait_s(self, cost: int, now: float) -> float:
        """Until `cost` units may be taken; 0 for at once."""
        self._fill(now)
        missing = min(cost, self._most) - self.level
        return max(missing / self._per_second, 0.0) if missing > _ROUNDING else 0.0

    def take(self, cost: int, now: float) -> None:
        self._fill(now)
        self.level -= cost

    def put_back(self, cost: int, now: float) -> None:
        """Give back what was taken and not used."""
        self._fill(now)
        self.level = min(self.level + cost, self._most)

    def set_rate(self, per_minute: float, now: float) -> None:
        """From now on so many; what was saved up stays, as far as it fits."""
        self._fill(now)
        self.per_minute = per_minute
        self.level = min(self.level, self._most)

    @property
    def _most(self) -> float:
        return max(1.0, self.per_minute * BURST_SHARE)

    @property
    def _per_second(self) -> float:
        """Burst and flow together are what a minute allows."""
        return self.per_minute * (1 - BURST_SHARE) / MINUTE_S

    def _fill(self, now: float) -> None:
        if self.filled_at is None:
            self.level = self._most
        else:
            self.level += (now - self.filled_at) * self._per_second
            self.level = min(self.level, self._most)
        self.filled_at = now


_ROUNDING = 1e-9  # a wait that was computed must be enough when it is over
