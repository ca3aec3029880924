"""The distance between the broker's clock and ours, as two bounds."""

from dataclasses import dataclass

DRIFT = 0.0005  # seconds a second: more than clocks drift, and as fast as NTP moves one
RESOLUTION_S = 0.001  # the broker's time has whole milliseconds


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The broker's clock minus ours, in seconds, as it was when ours showed `at_s`."""

    low_s: float
    high_s: float
    at_s: float

    @property
    def width_s(self) -> float:
        return self.high_s - self.low_s

    @property
    def middle_s(self) -> float:
        return (self.low_s + self.high_s) / 2


def measured(reported_s: float, before_s: float, after_s: float) -> ClockOffset:
    """The broker's clock showed `reported_s` at some moment between two of ours."""
    return ClockOffset(reported_s - after_s, reported_s + RESOLUTION_S - before_s, after_s)


def narrowed(known: ClockOffset | None, new: ClockOffset) -> ClockOffset:
    """Combines both; where they contradict each other a clock was moved, and the new one is right.

    What is known becomes vague with time, since clocks drift.
    """
    if known is None:
        return new
    drift_s = DRIFT * max(new.at_s - known.at_s, 0.0)
    low_s = max(known.low_s - drift_s, new.low_s)
    high_s = min(known.high_s + drift_s, new.high_s)
    return new if low_s > high_s else ClockOffset(low_s, high_s, new.at_s)
