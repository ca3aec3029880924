"""One tenant with 10,000 requests of as many workflows: another waits for less than two calls."""

import asyncio
from functools import partial
from itertools import islice
from typing import Any

import pytest

from answerbus.partition import partition_of
from services.worker.core.limits.fair_queue import SHARE_FACTOR
from services.worker.lane.context import Limits
from tests.unit.worker.builders import PARTITIONS, answered, workflow_of
from tests.unit.worker.lane.run_world import TWO_STEPS, RunStage
from tests.unit.worker.lane.stage import Stage, now
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, done, until

pytestmark = pytest.mark.wide  # many requests

FLOOD = 10_000
CALL_S = 30.0
LOOK_S = 0.1  # between two looks whether it is done
LIMITS = Limits(100, 1_000, 2_000, 32 * 1024 * 1024)  # the lane reads on beyond 2,000 requests


def of(tenant: str) -> dict[str, Any]:
    return {"labels": {"tenant": tenant}, "ttl_s": 86_400}


def own_workflows(count: int) -> list[str]:
    """Of the lane's partition."""
    names = (f"flood-{n}" for n in range(PARTITIONS * 2 * count))
    return list(islice((n for n in names if partition_of(n, PARTITIONS) == 0), count))


@pytest.mark.parametrize(("slots", "flood"), [(2, FLOOD), (1, 200), (16, 500)])
@on_virtual_time
async def test_another_tenant_waits_for_less_than_two_calls(slots: int, flood: int) -> None:
    stage = Stage(FakeProvider(lambda *_: (CALL_S, answered())), slots=slots, limits=LIMITS)
    for workflow in own_workflows(flood):
        stage.publish(workflow, workflow_id=workflow, **of("acme"))
    await stage.worker.open()
    await asyncio.sleep(CALL_S / 3)
    assert len(stage.worker.lane.tasks) <= LIMITS.max_in_flight
    for number in range(3):
        asked_at = now()
        name = f"small-{number}"
        stage.publish(name, workflow_id=workflow_of(0, number), **of("acme-labs"))
        await until(partial(done, stage.broker, [name]), 300, look_s=LOOK_S)
        assert now() - asked_at < (2 + 1) * CALL_S + LOOK_S, "its own call, and less than two"
    assert len(stage.worker.lane.tasks) <= LIMITS.max_in_flight * (1 + 1 / SHARE_FACTOR)
    await stage.worker.crash()


@on_virtual_time
async def test_each_step_of_a_run_waits_for_less_than_two_calls() -> None:
    stage = RunStage(slots=2, limits=LIMITS)
    stage.provider.call_s = CALL_S
    for workflow in own_workflows(200):
        stage.publish(workflow, workflow_id=workflow, **of("acme"))
    await stage.worker.open()
    await asyncio.sleep(CALL_S / 3)
    asked_at = now()
    stage.publish("small", workflow_id=workflow_of(0), **of("acme-labs"))
    await until(lambda: done(stage.broker, ["small"]), 1_000, look_s=2.0)
    assert now() - asked_at < len(TWO_STEPS) * (2 + 1) * CALL_S
    stage.serving.cancel()
    await stage.worker.crash()
