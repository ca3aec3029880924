"""The inputs of the verdict on a worker's health."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Protocol

from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.core.run.known_tools import KnownTools
from services.worker.health.loop_monitor import LoopMonitor
from services.worker.health.probe import Probe
from services.worker.lane.context import LaneContext


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds: without progress, and until the group gives a silent member's partitions away."""

    stuck_after_s: float
    session_s: float


class HeldBackRequests(Protocol):
    """Requests that an open transaction keeps from being read, by partition."""

    def problem_of(self, partition: int) -> str | None:
        """The transaction's owner, once it has been open too long."""
        ...

    def held_s(self, partition: int) -> float:
        """For how long; 0 where there is none."""
        ...


class NothingHeldBack:
    def problem_of(self, _partition: int) -> str | None:
        return None

    def held_s(self, _partition: int) -> float:
        return 0.0


@dataclass(slots=True)
class SettingsState:
    """Which settings are in force, by digest; `refused` says why the file's are not."""

    digest: str = ""
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class HealthInputs:
    """All that a verdict is drawn from.

    `others` gives the names of consumer groups whose workers read the same requests; `coordinator`,
    `brokers` and `signals` the problem that each has, if any. `clock_ahead_s` is how far this
    machine's clock is ahead of the broker's, where that is known. `advice` gives what the settings
    leave open.
    """

    membership: Membership
    context: LaneContext
    loop_monitor: LoopMonitor
    probe: Probe
    bounds: Bounds
    others: Callable[[], Sequence[str]] = tuple
    # By default there is no reader.
    read_monitor: ReadMonitor = field(default_factory=partial(ReadMonitor, inf))
    coordinator: Callable[[], str | None] = lambda: None
    brokers: Callable[[], str | None] = lambda: None
    signals: Callable[[], str | None] = lambda: None
    transactions: HeldBackRequests = field(default_factory=NothingHeldBack)
    clock_ahead_s: Callable[[], float | None] = lambda: None
    settings: SettingsState = field(default_factory=SettingsState)
    tools: KnownTools = field(default_factory=KnownTools)
    advice: Callable[[], Sequence[str]] = tuple

    def kafka_is_in_trouble(self) -> bool:
        """Whether something of it was not answered of late."""
        lifecycles = self.membership.lifecycles.values()
        are_stuck = any(lifecycle.stuck for lifecycle in lifecycles)
        is_silent = self.probe.trouble or self.coordinator() or self.read_monitor.apart
        return are_stuck or bool(is_silent)
