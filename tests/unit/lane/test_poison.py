"""A request is given up for what it does to its worker, and never for what the broker does."""

import asyncio

from services.worker.lane.lane import State
from services.worker.lane.opening import OPENINGS_BEFORE_BURIAL
from tests.unit.builders import answered, workflow_of
from tests.unit.lane.fakes import Fault
from tests.unit.lane.stage import Stage
from tests.unit.lane.virtual import run
from tests.unit.lane.world import FakeProvider, Worker, context, terminals


def test_who_comes_after_losses_in_a_row_is_not_blamed_for_them() -> None:
    """Calls that take longer than the broker stays: nothing is finished between two losses."""

    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (50.0, answered())))
        stage.publish("r-1")
        await stage.worker.open()
        await stage.called("r-1")
        for _ in range(OPENINGS_BEFORE_BURIAL + 1):
            stage.broker.faults.append(Fault.REFUSED)
            stage.broker.publish(b"nonsense")
            await stage.worker.until(State.OPENING)
            await stage.worker.until(State.OPEN)
        stage.publish("r-2", workflow_id=workflow_of(0, 1))
        await stage.all_done()

        ended = terminals(stage.broker)
        assert (ended["r-1"], ended["r-2"]) == ("result", "result")
        await stage.worker.drain()

    run(main())


def test_lanes_that_move_from_worker_to_worker_suspect_nobody() -> None:
    """Each left in peace, if with nothing done: its provider is away."""

    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (5_000.0, answered())))
        for _ in range(OPENINGS_BEFORE_BURIAL + 1):
            await stage.worker.open()
            stage.worker.revoke()
            stage.worker.assign()
            await asyncio.sleep(1)
            await stage.worker.crash()
            stage.worker = Worker(stage.broker, context(stage.provider))
        await stage.worker.open()

        assert stage.worker.lane.suspect_openings is None
        assert not stage.worker.lane.single
        await stage.worker.drain()

    run(main())
