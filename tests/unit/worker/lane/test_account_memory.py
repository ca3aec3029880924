"""An account that rests for longer than is remembered is forgotten, in the ledger too."""

import asyncio
from datetime import timedelta

import pytest

from answerbus.topics import LEDGER
from services.worker.core.budget.accounts import AccountMemory
from services.worker.lane.context import Limits
from services.worker.lane.state.records import account_key
from tests.unit.worker.lane.proposing import ProposingStage, finished
from tests.unit.worker.lane.run_checks import breaks
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import (
    OUR_WORKFLOW,
    Worker,
    done,
    final_account,
    terminals,
    until,
)

MEMORY = timedelta(hours=1)
LIMITS = Limits(100, 1_000, 1_000, 10_000_000, account_memory=AccountMemory(MEMORY))
REST_S = 1.1 * MEMORY.total_seconds()


def last_of_the_account(stage: Stage) -> bytes | None:
    """What the ledger says of it."""
    key = account_key(OUR_WORKFLOW).encode()
    return [record.value for record in stage.broker.log(LEDGER).records if record.key == key][-1]


@pytest.mark.wide
@on_virtual_time
async def test_a_workflow_that_rests_for_longer_than_is_remembered_starts_again() -> None:
    stage = Stage(limits=LIMITS)
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": 1})
    await stage.all_done()
    stage.publish("r-2")
    await stage.all_done()
    assert last_of_the_account(stage)

    await until(lambda: last_of_the_account(stage) is None, REST_S, look_s=1.0)
    await stage.worker.drain()
    stage.worker = Worker(stage.broker, stage.context)
    await stage.worker.open()
    lane = stage.worker.lane.open
    assert lane
    assert not lane.lane_state.ledger.accounts
    stage.publish("r-3", budget={"attempts": 1})
    await stage.all_done()
    await stage.worker.drain()

    assert done(stage.broker, stage.names)
    expected = {"r-1": "result", "r-2": "dead_letter", "r-3": "result"}
    assert terminals(stage.broker) == expected, "the last has a budget of its own"
    assert last_of_the_account(stage)
    assert breaks(stage, MEMORY) == []
    assert [found.kind for found in breaks(stage)] == ["link"], "others remember for longer"


@on_virtual_time
async def test_an_account_is_kept_while_no_worker_has_its_run_with_proposals() -> None:
    """No attempt of the run itself is under way: it chose with a budget of its own."""
    stage = ProposingStage()
    stage.settings = {"limits": LIMITS}
    stage.worker._leave()
    stage.worker = stage.new_worker()
    await stage.worker.open()
    stage.publish("r-1", ttl_s=4 * int(REST_S))
    await until(lambda: len(stage.children()) == 3)
    await stage.crash()
    await asyncio.sleep(REST_S)
    await stage.worker.open()
    await finished(stage)

    assert final_account(stage.broker)["spent"]["attempts"] == 4
