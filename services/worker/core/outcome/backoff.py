"""How long to wait before trying again: exponential, full jitter, chance as an argument."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first_s * factor ** n`, never above `max_s`."""

    first_s: float
    factor: float
    max_s: float

    def delay_s(self, failures: int, jitter: float) -> float:
        """The wait after `failures` failures (from 1); `jitter` is a uniform number in [0, 1)."""
        try:
            ceiling = self.first_s * self.factor ** max(failures - 1, 0)
        except OverflowError:
            ceiling = self.max_s
        return min(ceiling, self.max_s) * jitter
