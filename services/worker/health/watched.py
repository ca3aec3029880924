"""The inputs of the verdict on a worker's health."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.worker.adapters.kafka.broker_monitor import BrokerMonitor
from services.worker.adapters.kafka.coordinator import Coordinator
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.other_groups import OtherGroups
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.adapters.kafka.run_consumers import SignalConsumer
from services.worker.adapters.kafka.transaction_monitor import TransactionMonitor
from services.worker.core.run.known_tools import KnownTools
from services.worker.health.loop_monitor import LoopMonitor
from services.worker.health.probe import Probe
from services.worker.lane.context import LaneContext


@dataclass(slots=True)
class SettingsState:
    """Which settings are in force, by digest; `refused` says why the file's are not."""

    digest: str = ""
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class HealthInputs:
    """All that a verdict is drawn from.

    `stuck_after_s` bounds a time without progress; after `session_s` the group gives the partitions
    of a silent member away. `clock_ahead_s` is how far this machine's clock is ahead of the
    broker's, where that is known. `advice` gives what the settings leave open.
    """

    membership: Membership
    context: LaneContext
    loop_monitor: LoopMonitor
    probe: Probe
    stuck_after_s: float
    session_s: float
    others: OtherGroups
    read_monitor: ReadMonitor
    coordinator: Coordinator
    brokers: BrokerMonitor
    signals: SignalConsumer
    transactions: TransactionMonitor
    clock_ahead_s: Callable[[], float | None]
    settings: SettingsState
    tools: KnownTools
    advice: Callable[[], Sequence[str]]

    def kafka_is_in_trouble(self) -> bool:
        """Whether something of it was not answered of late."""
        lifecycles = self.membership.lifecycles.values()
        are_stuck = any(lifecycle.stuck for lifecycle in lifecycles)
        is_silent = self.probe.trouble or self.coordinator.trouble or self.read_monitor.apart
        return are_stuck or bool(is_silent)
