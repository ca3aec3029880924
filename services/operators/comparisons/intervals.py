"""Shares and means with their 95 % intervals; pure."""

import math
from dataclasses import dataclass

_Z_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Proportion:
    """So many of so many, with Wilson's interval."""

    hits: int
    of: int

    @property
    def value(self) -> float | None:
        return self.hits / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """All is possible where nothing is known."""
        return wilson(self.hits, self.of) if self.of else (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of `of` numbers, with the interval of the normal distribution."""

    value: float | None
    of: int
    half: float = 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """None where there are too few numbers for one."""
        if self.value is None or math.isinf(self.half):
            return None
        return self.value - self.half, self.value + self.half


@dataclass(slots=True)
class Sums:
    """Numbers that are added up; exact, since they are whole."""

    of: int = 0
    total: int = 0
    squares: int = 0

    def take(self, number: int) -> None:
        """Count one."""
        self.of += 1
        self.total += number
        self.squares += number * number

    @property
    def mean(self) -> Mean:
        """Of those that were counted."""
        if not self.of:
            return Mean(None, 0)
        mean = self.total / self.of
        if self.of == 1:
            return Mean(mean, 1, math.inf)
        variance = (self.of * self.squares - self.total**2) / (self.of * (self.of - 1))
        return Mean(mean, self.of, _Z_95 * math.sqrt(variance / self.of))


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    share, z2 = hits / of, _Z_95**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z_95 / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of**2))
    return max(0.0, middle - half), min(1.0, middle + half)
