"""A deployment without topics of runs: nothing that is asked there makes a worker write to one."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from answerbus.account_id import replay_account
from answerbus.private.budgets import BudgetLeaseRecord
from answerbus.topics import DEAD_LETTERS, LEASES, RUN_TOPICS
from services.worker.lane.context import RunSetup
from services.worker.lane.state.records import event_record
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import OUR_WORKFLOW, Worker, events, terminals

PARENT = {"request_id": "r-0", "call_id": "r-0.call.1.0"}


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"parent": PARENT}, "unknown_parent"),
        ({"agent": {"name": "support"}}, "unknown_agent"),
        ({"agent": {"name": "support"}, "parent": PARENT}, "unknown_parent"),
        ({"parent": {**PARENT, "depth": 1, "floor": 1, "cap": 4}}, "unknown_parent"),
    ],
)
@on_virtual_time
async def test_a_request_of_a_run_ends_and_stops_no_other(more: dict[str, Any], kind: str) -> None:
    """The end of one with `parent` was written to the topic of runs: its lane did nothing more."""
    stage = Stage()
    await stage.worker.open()
    stage.publish("r-1", **more)
    stage.publish("r-2")
    await stage.all_done(60)

    assert terminals(stage.broker) == {"r-1": "dead_letter", "r-2": "result"}
    assert [event["cause"]["kind"] for event in events(stage.broker, DEAD_LETTERS)] == [kind]
    assert len(stage.worker.shards) == 1
    assert [topic.name for topic in RUN_TOPICS if stage.broker.log(topic).records] == []
    await stage.end()


@on_virtual_time
async def test_what_is_left_of_budgets_is_not_written_where_there_is_no_topic_for_it() -> None:
    """A lease that its home waits for kept its lane shut until the end of its window."""
    stage = Stage()
    now = stage.broker.clock.now()
    lease = BudgetLeaseRecord(
        budget="tenant:acme", window=now.strftime("%Y-%m"), lane=0, is_tight=True, at=now
    )
    stage.broker.append(event_record(lease, 0))
    await stage.worker.open()
    stage.publish("r-1")
    await stage.all_done(60)

    assert stage.broker.log(LEASES).records == []
    await stage.end()


@on_virtual_time
async def test_a_resumed_run_ends_at_once_where_no_topic_can_hold_its_proof() -> None:
    """It looked for the proof until its deadline, which may be six days, and kept its place."""

    async def no_answer(*_: Any) -> bool:  # see ResumptionCheck: it waits for the topic
        await asyncio.Event().wait()
        return False

    stage = Stage()
    stage.worker._leave()
    context = replace(stage.context, runs=RunSetup(is_resumed=no_answer))
    stage.worker = Worker(stage.broker, context)
    await stage.worker.open()
    steps = [{"attempt": 1, "said": [], "calls": []}]
    resumed = {"request_id": "r-0", "steps": steps, "previous": f"sha256:{0:064}", "number": 1}
    account = replay_account(OUR_WORKFLOW, "d-0")
    replay = {"dead_letter_id": "d-0", "account": account, "by": "o", "round": 1, "edited": False}
    run = {"agent": {"name": "support"}, "replay": replay, "resumed": resumed}
    stage.publish("r-1", ttl_s=518_400, **run)
    await stage.all_done(5)

    (ended,) = events(stage.broker, DEAD_LETTERS)
    assert ended["cause"] == {"kind": "unknown_agent"}
    await stage.end()
