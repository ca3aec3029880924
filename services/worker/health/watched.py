"""What health watches: all that a verdict on a worker is drawn from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Protocol

from services.worker.context import Context
from services.worker.health.probe import Probe
from services.worker.health.pulse import Pulse
from services.worker.lane.membership import Membership
from services.worker.reading import Reading


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds: without progress, and until the group gives a silent member's partitions away."""

    stuck_after_s: float
    session_s: float


class Others(Protocol):
    """The names of consumer groups whose workers read the same requests."""

    @property
    def names(self) -> tuple[str, ...]:
        """As of the last look."""
        ...


@dataclass(frozen=True, slots=True)
class NoOthers:
    """There are none."""

    names: tuple[str, ...] = ()


class HasTrouble(Protocol):
    """Something that may have gone wrong."""

    @property
    def trouble(self) -> str | None:
        """What has; None if nothing is known of it."""
        ...


@dataclass(frozen=True, slots=True)
class NoTrouble:
    """Nothing has."""

    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """All that a verdict is drawn from.

    `clock_ahead_s` is how far this machine's clock is ahead of the broker's, where that is known.
    """

    membership: Membership
    context: Context
    pulse: Pulse
    probe: Probe
    bounds: Bounds
    others: Others = NoOthers()
    reading: Reading = field(default_factory=partial(Reading, inf))  # by default nobody reads
    coordinator: HasTrouble = NoTrouble()
    clock_ahead_s: Callable[[], float | None] = lambda: None
