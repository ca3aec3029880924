"""The health of a worker in memory, on virtual time."""

import asyncio
from math import inf

from services.settings.settings import KafkaSettings
from services.worker.adapters.kafka.broker_monitor import BrokerMonitor
from services.worker.adapters.kafka.coordinator import Coordinator
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.other_groups import OtherGroups
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.adapters.kafka.run_consumers import SignalConsumer
from services.worker.adapters.kafka.transaction_monitor import watching_transactions
from services.worker.core.run.known_tools import KnownTools
from services.worker.health.loop_monitor import LoopMonitor
from services.worker.health.probe import Probe
from services.worker.health.verdict import Verdict, judge
from services.worker.health.watched import HealthInputs, SettingsState
from services.worker.lane.context import LaneContext
from tests.unit.worker.lane.stage import Stage

BOUND_S, SESSION_S = 45.0, 10.0


async def no_ends() -> dict[int, int]:
    return {}


def health_inputs(
    membership: Membership, context: LaneContext, probe: Probe | None = None
) -> HealthInputs:
    """Those of a worker that nothing but its lanes and `probe` can make unready."""
    kafka, read_monitor = KafkaSettings(), ReadMonitor()
    read_monitor.polled_at = inf
    return HealthInputs(
        membership,
        context,
        LoopMonitor(),
        probe or Probe(no_ends),
        BOUND_S,
        SESSION_S,
        OtherGroups(kafka),
        read_monitor,
        Coordinator(kafka),
        BrokerMonitor(kafka),
        SignalConsumer(),
        watching_transactions((), kafka),
        clock_ahead_s=lambda: None,
        settings=SettingsState(),
        tools=KnownTools(),
        advice=tuple,
    )


class Watch:
    """What a worker would say of itself, with a broker that answers as long as it is there."""

    def __init__(self, stage: Stage) -> None:
        self.is_there = True
        self.probe = Probe(self._ends)
        self.watched = health_inputs(stage.worker.membership, stage.context, self.probe)
        self.loop_monitor = self.watched.loop_monitor
        self._tasks = [asyncio.create_task(of.run()) for of in (self.loop_monitor, self.probe)]

    async def _ends(self) -> dict[int, int]:
        if not self.is_there:
            raise TimeoutError
        return {0: 7}

    def verdict(self) -> Verdict:
        return judge(self.watched)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
