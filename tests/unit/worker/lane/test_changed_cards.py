"""A toolset announces another card, or none, while runs with its tools are open."""

import asyncio
from typing import Any

import pytest

from answerbus.private.runs import ToolDefinition
from services.worker.core.schema.resolved import JsonObject
from tests.unit.worker.builders import workflow_of
from tests.unit.worker.core.run_builders import actions, call, says, tool
from tests.unit.worker.lane.run_checks import cause, finished
from tests.unit.worker.lane.run_world import TOOLS, RunStage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import done, terminals, until

OTHER = workflow_of(0, 1)
NUMBER: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TWICE = (actions(call(order_id="1")), actions(call(order_id="2")), actions(says("Well.")))
OTHER_CARDS: dict[str, dict[str, ToolDefinition]] = {
    "other arguments": {**TOOLS, "orders.get": tool("orders.get", NUMBER)},
    "approval": {**TOOLS, "orders.get": tool("orders.get", approval="always")},
    "no such tool": {"orders.pay": TOOLS["orders.pay"]},
}


@pytest.mark.parametrize("after", OTHER_CARDS)
@pytest.mark.parametrize("crashes", [False, True])
@on_virtual_time
async def test_an_open_run_keeps_the_card_that_it_began_with(after: str, crashes: bool) -> None:
    held: list[Any] = []

    def hold(event: Any) -> list[Any]:
        held.append(event)
        return []

    stage = await RunStage.opened("r-1", steps=TWICE, tooling=hold)
    await until(lambda: len(held) == 1)
    if crashes:
        await stage.crash()
    stage.worker.context.planner.tools = OTHER_CARDS[after]
    if crashes:
        await stage.worker.open()
    stage.tools.tooling = lambda _: [(0.02, {"kind": "ok", "value": "done"})]
    stage.tools.answer(held[0], {"kind": "ok", "value": "done"})
    await until(lambda: done(stage.broker, ["r-1"]))
    await finished(stage)

    assert terminals(stage.broker) == {"r-1": "result"}
    made = sorted(call["args"]["order_id"] for call in stage.calls())
    assert made == ["1", "2"]
    assert stage.steps("approval_requested") == []
    assert len({call["agent"]["digest"] for call in stage.calls()}) == 1


@on_virtual_time
async def test_a_run_that_begins_afterwards_has_the_other_card() -> None:
    stage = await RunStage.opened("r-1", steps=TWICE)
    await until(lambda: done(stage.broker, ["r-1"]))
    stage.worker.context.planner.tools = OTHER_CARDS["other arguments"]
    stage.publish("r-2")
    await until(lambda: done(stage.broker, ["r-2"]))
    stage.worker.context.planner.tools = OTHER_CARDS["no such tool"]
    stage.publish("r-3")
    await finished(stage)

    of_second = [step for step in stage.steps("tool_ended") if step["request_id"] == "r-2"]
    assert {one["outcome"]["kind"] for one in of_second} == {"invalid_args"}
    assert cause(stage, "r-3") == "missing_tools"


@on_virtual_time
async def test_a_run_waits_for_tools_that_were_announced_just_before_it() -> None:
    stage = RunStage(TWICE)
    planner, came = stage.worker.context.planner, asyncio.Event()
    planner.tools, planner.catch_up = {}, came.wait
    await stage.worker.open()
    stage.publish("r-1")
    stage.publish("r-2", agent=None, answer_schema={"kind": "text"}, workflow_id=OTHER)
    await until(lambda: done(stage.broker, ["r-2"]))  # which is behind it
    assert not done(stage.broker, ["r-1"])
    planner.tools = TOOLS
    came.set()
    await until(lambda: done(stage.broker, ["r-1"]))
    await finished(stage)

    assert terminals(stage.broker) == {"r-1": "result", "r-2": "result"}


@on_virtual_time
async def test_a_run_that_waits_for_its_tools_ends_when_it_is_cancelled_or_late() -> None:
    stage = RunStage(TWICE)
    planner = stage.worker.context.planner
    planner.tools, planner.catch_up = {}, asyncio.Event().wait
    await stage.worker.open()
    stage.publish("r-1")
    await asyncio.sleep(1)
    stage.cancel("r-1")
    await until(lambda: done(stage.broker, ["r-1"]))
    stage.publish("r-2", ttl_s=20)
    await until(lambda: done(stage.broker, ["r-2"]), 60)
    await finished(stage)

    assert (cause(stage, "r-1"), cause(stage, "r-2")) == ("cancelled", "missing_tools")
