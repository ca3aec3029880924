"""A shadow's UTC day: a comparison of its own, and what it may cost; pure."""

from dataclasses import dataclass
from datetime import date

from answerbus.compared import Compared

_BETWEEN = ".SHADOWS."  # no profile has capitals in its name: the two are never mistaken


@dataclass(slots=True)
class PerDay:
    """The usage or the limit of one day: calls, and millionths of a dollar."""

    calls: int = 0
    micro_usd: int = 0

    def take(self, compared: Compared) -> None:
        """Count one record."""
        self.calls += 1
        self.micro_usd += compared.charged_micro_usd


def shadow_name(original: str, shadow: str, day: date) -> str:
    """The comparison of that day."""
    return f"{shadow}{_of(original, day)}"


def is_of_day(comparison: str, original: str, day: date) -> bool:
    """Whether it counts against the limit of a profile's shadow, whichever that was that day."""
    return comparison.endswith(_of(original, day))


def _of(original: str, day: date) -> str:
    return f"{_BETWEEN}{original}.{day.isoformat()}"
