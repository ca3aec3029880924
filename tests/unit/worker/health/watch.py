"""The health of a worker in memory, on virtual time."""

import asyncio

from services.worker.health.loop_monitor import LoopMonitor
from services.worker.health.probe import Probe
from services.worker.health.verdict import Verdict, judge
from services.worker.health.watched import Bounds, HealthInputs
from tests.unit.worker.lane.stage import Stage

BOUND_S, SESSION_S = 45.0, 10.0


class Watch:
    """What a worker would say of itself, with a broker that answers as long as it is there."""

    def __init__(self, stage: Stage) -> None:
        self.is_there = True
        self.loop_monitor, self.probe = LoopMonitor(), Probe(self._ends)
        bounds = Bounds(BOUND_S, SESSION_S)
        self.watched = HealthInputs(
            stage.worker.membership, stage.context, self.loop_monitor, self.probe, bounds
        )
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
