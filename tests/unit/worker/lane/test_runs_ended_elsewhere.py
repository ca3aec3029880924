"""A worker that does not read the topic of runs ends one; a worker that does lets it stay ended."""

import asyncio
from datetime import timedelta
from typing import Any

from answerbus.envelope import encode
from answerbus.event import key
from answerbus.private.ledger import Skipped
from answerbus.topics import DEAD_LETTERS, LEDGER, RETRIES
from answerbus.wire import bytes_digest
from services.worker.core.budget.closed import IdMemory
from services.worker.core.budget.ledger import closed_record
from services.worker.lane.context import Limits
from services.worker.lane.state.records import account_key
from tests.unit.worker.builders import NOW
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.delegating import FAN_OUT, DelegatingStage
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import OUR_WORKFLOW, Worker, context, events, terminals, until

STEP, LAST = actions(call(order_id="1")), actions(says("Done."))


async def elsewhere(stage: RunStage, *copies: str, ends: str = "r-1", rest_s: float = 0.0) -> None:
    """The lane goes to a worker without agents and rights to topics of runs, and comes back."""
    await stage.worker.crash()
    other = Worker(stage.broker, context(stage.provider, **stage.settings))
    await other.open()
    stage.publish(*copies)
    await until(lambda: ends in terminals(stage.broker), 60)
    await asyncio.sleep(rest_s)
    await other.drain()
    stage.worker = stage.new_worker()
    await stage.worker.open()


@on_virtual_time
async def test_a_run_that_waited_for_another_try_has_one_outcome() -> None:
    """It went on, and had a result beside its dead letter."""
    stage = await RunStage.opened("r-1", steps=(STEP, "x"))
    await until(lambda: bool(stage.broker.log(RETRIES).records), 60)
    await elsewhere(stage)
    stage.provider.steps = (STEP, LAST)
    stage.publish("r-2")
    await until(lambda: "r-2" in terminals(stage.broker), 60)

    assert terminals(stage.broker) == {"r-1": "dead_letter", "r-2": "result"}
    assert stage.open_records() == {}
    await stage.end()


@on_virtual_time
async def test_a_run_of_which_a_copy_was_read_has_one_outcome_and_its_calls_end() -> None:
    stage = await RunStage.opened("r-1", steps=(STEP, LAST), tooling=lambda _: ())
    await until(lambda: bool(stage.calls()), 60)
    await elsewhere(stage, "r-1")
    (made,) = stage.calls()
    await until(lambda: bool(stage.calls("tool_cancel")), 60)
    stage.tools.answer(made, {"kind": "ok", "value": "late"})
    await until(lambda: stage.open_records() == {}, 60)

    (ended,) = stage.steps("tool_ended")
    assert ended["outcome"]["kind"] == "cancelled"
    assert terminals(stage.broker) == {"r-1": "dead_letter"}
    await stage.end()


@on_virtual_time
async def test_a_run_whose_id_was_forgotten_since_has_one_outcome() -> None:
    """It went on from its last step, and had a result beside its dead letter."""
    memory = IdMemory.lasting(timedelta(minutes=1))
    limits = Limits(9, 9, 9, 100_000, id_memory=memory)
    stage = await RunStage.opened("r-1", steps=(STEP, "x"), limits=limits)
    await until(lambda: bool(stage.broker.log(RETRIES).records), 60)
    await elsewhere(stage, rest_s=200)
    await until(lambda: stage.open_records() == {}, 60)
    stage.provider.steps = (STEP, LAST)
    stage.publish("r-2")
    await until(lambda: "r-2" in terminals(stage.broker), 60)

    assert terminals(stage.broker) == {"r-1": "dead_letter", "r-2": "result"}
    await stage.end()


@on_virtual_time
async def test_its_children_end_as_cancelled() -> None:
    stage = DelegatingStage(FAN_OUT)
    stage.provider.child_s = 30
    await stage.worker.open()
    stage.publish("r-1")
    await until(lambda: len(stage.asked_calls()) == 2, 60)
    await elsewhere(stage, "r-1")
    await until(lambda: len(terminals(stage.broker)) == 3, 100)

    causes = [event["cause"]["kind"] for event in events(stage.broker, DEAD_LETTERS)]
    assert sorted(causes) == ["cancelled", "cancelled", "unknown_agent"]
    assert stage.open_records() == {}
    await stage.end()


@on_virtual_time
async def test_a_run_goes_on_whose_child_was_ended() -> None:
    """It waited for the child until its deadline."""
    child = "r-1.call.1.0"
    stage = await DelegatingStage.opened(
        "r-1", steps=FAN_OUT, answers={child: [{"not": "wrapped"}]}
    )
    await until(lambda: bool(stage.broker.log(RETRIES).records), 60)
    await until(lambda: stage.broker.offsets.get(0, 0) > 0, 60)  # no copy of the run is read
    await elsewhere(stage, ends=child)
    await until(lambda: "r-1" in terminals(stage.broker), 60)

    kinds = {"r-1": "result", child: "dead_letter", "r-1.call.1.1": "result"}
    assert terminals(stage.broker) == kinds
    assert stage.ended()[child] == {"kind": "dead_letter", "cause": "unknown_parent"}
    assert stage.open_records() == {}
    await stage.end()


@on_virtual_time
async def test_a_run_whose_id_was_closed_before_its_request_came_goes_on() -> None:
    """An id may be used again after a day; the end of its entry may not be written or read yet."""
    stage = await RunStage.opened("r-1", steps=(STEP, "x"))
    await until(lambda: bool(stage.broker.log(RETRIES).records), 60)
    await until(lambda: stage.broker.offsets.get(0, 0) > 0, 60)  # no copy of it is read
    await stage.crash()
    at = stage.broker.clock.now() - timedelta(hours=25)
    before = encode(closed_record("r-1", OUR_WORKFLOW, f"sha256:{'0' * 64}", "result", 0, at))
    stage.broker.log(LEDGER).append(before.key, before.value, (), at)
    stage.provider.steps = (STEP, LAST)
    await stage.worker.open()
    await until(lambda: "r-1" in terminals(stage.broker), 60)

    assert terminals(stage.broker) == {"r-1": "result"}
    await stage.end()


@on_virtual_time
async def test_a_run_goes_on_whose_account_was_skipped_and_opened_again() -> None:
    """The new account knew of the other request alone: the run had no outcome."""
    unordered: dict[str, Any] = {"policy": {"ordering": "none"}}
    stage = await RunStage.opened("r-1", steps=(STEP, LAST), tooling=lambda _: (), asked=unordered)
    await until(lambda: bool(stage.calls()), 60)
    await until(lambda: stage.broker.offsets.get(0, 0) > 0, 60)  # no copy of it is read
    await stage.crash()
    ledger, account = stage.broker.log(LEDGER), account_key(OUR_WORKFLOW).encode()
    ledger.records[:] = [record for record in ledger.records if record.key != account]
    await stage.worker.open()
    stage.publish("r-2", agent=None, **unordered)
    await until(lambda: "r-2" in terminals(stage.broker), 60)
    await stage.crash()
    await stage.worker.open()
    (made,) = stage.calls()
    stage.tools.answer(made, {"kind": "ok", "value": "done"})
    await until(lambda: "r-1" in terminals(stage.broker), 60)

    assert terminals(stage.broker) == {"r-1": "result", "r-2": "result"}
    await stage.end()


@on_virtual_time
async def test_a_run_goes_on_whose_account_is_known_as_it_was_before() -> None:
    """What was skipped had its entry: the run had no outcome."""
    stage = await RunStage.opened("r-0", steps=(LAST,))
    await until(lambda: "r-0" in terminals(stage.broker), 60)
    ledger, account = stage.broker.log(LEDGER), account_key(OUR_WORKFLOW).encode()
    before = ledger.records[-1].offset
    stage.provider.steps, stage.tools.tooling = (STEP, LAST), lambda _: ()
    stage.publish("r-1")
    await until(lambda: bool(stage.calls()), 60)
    await until(lambda: stage.broker.offsets.get(0, 0) > 1, 60)  # no copy of the run is read
    await stage.crash()
    ledger.records[:] = [
        record for record in ledger.records if record.key != account or record.offset <= before
    ]
    skipped = Skipped(
        offset=ledger.end, digest=bytes_digest(b"?"), problem="?", by="ops", reason="why", at=NOW
    )
    ledger.append(account, b"?", (), stage.broker.clock.now())
    ledger.append(key(skipped).encode(), encode(skipped).value, (), stage.broker.clock.now())
    await stage.worker.open()
    (made,) = stage.calls()
    stage.tools.answer(made, {"kind": "ok", "value": "done"})
    await until(lambda: "r-1" in terminals(stage.broker), 60)

    assert terminals(stage.broker) == {"r-0": "result", "r-1": "result"}
    await stage.end()
