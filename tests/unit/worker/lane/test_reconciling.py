"""A call of a tool that must not run twice, whose server dies: over crashes of the worker, too."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.worker.core.run_builders import actions, call, says, tool
from tests.unit.worker.lane import run_world
from tests.unit.worker.lane.run_checks import cause, finished
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import done, publish, until

pytestmark = pytest.mark.wide

KILLED_AFTER_S = [None, 30.2, 65.3]
REFUND = tool("orders.refund", delivery="at_most_once", reconcilable=True)
STEPS = (actions(call("orders.refund", order_id="1")), actions(says("Done.")))
ASKS = {"question": "How many?", "json_schema": {"type": "integer"}}


@pytest.fixture(autouse=True)
def _with_refunds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_world, "TOOLS", {REFUND.name: REFUND})


@pytest.mark.parametrize("kill_after_s", KILLED_AFTER_S)
@pytest.mark.parametrize("has_effect", [True, False])
@on_virtual_time
async def test_the_journal_of_a_dead_server_decides(
    kill_after_s: float | None, has_effect: bool
) -> None:
    """It dies between the effect and the reply, or before both."""
    effects: list[str] = []

    def tooling(event: dict[str, Any]) -> list[tuple[float, dict[str, Any] | None]]:
        is_first = event["delivery"] == 1
        if has_effect or not is_first:
            effects.append(event["call_id"])
        return [] if is_first else [(0.02, {"kind": "ok", "value": "paid"})]

    def finding(question: dict[str, Any]) -> dict[str, Any]:
        happened = question["call_id"] in effects
        return {"kind": "happened", "value": "paid"} if happened else {"kind": "did_not_happen"}

    stage = await RunStage.opened("r-1", steps=STEPS, tooling=tooling)
    stage.tools.finding = finding
    if kill_after_s is not None:
        await asyncio.sleep(kill_after_s)
        await stage.crash()
        await stage.worker.open()
    await finished(stage)

    (ended,) = stage.steps("tool_ended")
    assert ended["outcome"] == {"kind": "ok", "value": "paid"}
    assert len(effects) == 1
    assert stage.open_records() == {}


@pytest.mark.parametrize("decision", ["approved", "denied"])
@on_virtual_time
async def test_a_person_decides_where_nobody_knows(decision: str) -> None:
    stage = await RunStage.opened(
        "r-1",
        steps=STEPS,
        tooling=lambda event: [(0.02, {"kind": "ok", "value": 1})] * (event["delivery"] > 1),
    )
    while not (found := stage.steps("approval_requested")):
        await asyncio.sleep(1.0)
    kept = {name: found[0][name] for name in ("call_id", "args_digest", "delivery")}
    for delivery in (1, 2):
        stage.control({**kept, "kind": "approval", "decision": decision, "delivery": delivery})
    await finished(stage)

    effects = [event["effect"] for event in stage.steps("control_applied")]
    (ended,) = stage.steps("tool_ended")
    is_approved = decision == "approved"
    assert effects == ["nothing", decision]
    assert ended["outcome"]["kind"] == ("ok" if is_approved else "timed_out")
    assert stage.tools.ran == ["r-1.call.1.0/1", "r-1.call.1.0/2"][: 1 + is_approved]


@on_virtual_time
async def test_each_approval_is_for_one_delivery_also_after_questions_of_the_tool() -> None:
    """Deliveries are counted anew once a person has answered, and the server dies each time."""
    stage = RunStage(STEPS, lambda _: (), {"ask_person": True})
    await stage.worker.open()
    stage.publish("r-1", ttl_s=20_000)
    made = await _nth(stage.calls, 0)
    asked = list[Any]()
    for number in (1, 2):
        more = {"state": f"round-{number}", "asks": ASKS}
        stage.tools.answer(made, {}, kind="tool_progress", **more)
        question = await _nth(lambda: stage.steps("input_requested"), number - 1)
        answer = {"kind": "input", "call_id": question["call_id"], "number": number}
        stage.control({**answer, "value": number})
        onwards = await _nth(lambda: _continued(stage), 2 * number - 2)
        stage.tools.answer(onwards["call"], {}, kind="tool_progress")
        asked.append(await _nth(lambda: stage.steps("approval_requested"), number - 1))
        for one in asked:  # the second time the first approval is repeated
            names = {"call_id", "args_digest", "delivery", "after_input"} & one.keys()
            kept = {name: one[name] for name in names}
            stage.control({**kept, "kind": "approval", "decision": "approved"})
        made = (await _nth(lambda: _continued(stage), 2 * number - 1))["call"]
    stage.tools.answer(made, {"kind": "ok", "value": "paid"})
    await finished(stage)

    call_id = made["call_id"]
    assert [one["event_id"] for one in asked] == [
        f"{call_id}.approval.2.1",
        f"{call_id}.approval.2.2",
    ]
    approvals = [
        event["effect"]
        for event in stage.steps("control_applied")
        if event["control"]["kind"] == "approval"
    ]
    assert approvals == ["approved", "nothing", "approved"]


def _continued(stage: RunStage) -> list[Any]:
    return sorted(stage.calls("tool_continue"), key=lambda one: str(one["call"]["at"]))


async def _nth(found: Callable[[], list[Any]], place: int) -> Any:
    while len(found()) <= place:
        await asyncio.sleep(0.5)
    return found()[place]


def test_a_child_of_a_call_that_awaits_a_person_does_not_keep_its_run_beyond_its_deadline() -> None:
    def tooling(event: dict[str, Any]) -> list[tuple[float, dict[str, Any] | None]]:
        if event["request_id"] == "r-1":
            agent, parent = {"name": "support"}, event["parent"]
            publish(stage.broker, "c-1", event["workflow_id"], agent=agent, parent=parent)
        return []

    stage: RunStage

    async def main() -> None:
        nonlocal stage
        stage = await RunStage.opened("r-1", steps=STEPS, tooling=tooling)
        await until(lambda: done(stage.broker, ["r-1", "c-1"]), 660.0, look_s=1.0)
        await finished(stage)

        assert cause(stage, "r-1") == cause(stage, "c-1") == "deadline_passed"

    run(main())
