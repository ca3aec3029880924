"""A question of a tool to a person, over crashes: its call goes on with the first answer, once."""

import asyncio
from collections.abc import Callable
from typing import Any

from services.worker.core.json_schema.keywords import JsonObject
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import terminals, until

SCHEMA: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ASKS: JsonObject = {"question": "How many?", "json_schema": SCHEMA}
STEPS = (actions(call(order_id="1")), actions(says("Done.")))


async def come(found: Callable[[], list[Any]]) -> Any:
    """The only one, once it is there."""
    while not found():
        await asyncio.sleep(0.5)
    (only,) = found()
    return only


@on_virtual_time
async def test_the_question_of_a_tool_outlives_crashes_and_its_call_goes_on_with_one_answer() -> (
    None
):
    agent = {"ask_person": True}
    stage = await RunStage.opened("r-1", steps=STEPS, agent=agent, tooling=lambda _: ())
    made = await come(stage.calls)
    more = {"kind": "tool_progress", "state": "round-1", "asks": ASKS}
    stage.tools.answer(made, {}, **more)
    question = await come(lambda: stage.steps("input_requested"))
    assert (question["tool"], question["question"]) == ("orders.get", "How many?")
    await stage.crash()
    await stage.worker.open()
    answer = {"kind": "input", "call_id": question["call_id"]}
    stage.control({**answer, "value": {"n": 0}, "number": 2})
    stage.control({**answer, "value": {"n": "many"}})
    stage.control({**answer, "value": {"n": 1}})
    stage.control({**answer, "value": {"n": 2}})
    onwards = await come(lambda: stage.calls("tool_continue"))
    await stage.crash()
    await stage.worker.open()
    stage.tools.answer(onwards["call"], {"kind": "ok", "value": "done"})
    await finished(stage)

    assert (onwards["state"], onwards["given"]["value"]) == ("round-1", {"n": 1})
    effects = [event["effect"] for event in stage.steps("control_applied")]
    assert sorted(effects) == ["answered", "invalid", "nothing", "nothing"]
    (ended,) = stage.steps("tool_ended")
    assert ended["outcome"] == {"kind": "ok", "value": "done"}
    assert len(stage.calls()) == 1
    assert stage.open_records() == {}


@on_virtual_time
async def test_a_question_that_nobody_can_be_asked_ends_its_call_and_the_run_goes_on() -> None:
    stage = await RunStage.opened("r-1", steps=STEPS, tooling=lambda _: ())
    made = await come(stage.calls)
    more = {"kind": "tool_progress", "state": "round-1", "asks": ASKS}
    stage.tools.answer(made, {}, **more)
    await finished(stage)

    (ended,) = stage.steps("tool_ended")
    assert ended["outcome"]["code"] == "input_required"
    assert [one["state"] for one in stage.calls("tool_cancel")] == ["round-1"]


@on_virtual_time
async def test_an_invalid_question_ends_its_call_and_its_server_gives_up_its_state() -> None:
    """Nothing was sent to the server, which kept what it had for the call."""
    stage = await RunStage.opened("r-1", steps=STEPS, tooling=lambda _: ())
    made = await come(stage.calls)
    stage.tools.answer(made, {}, kind="tool_progress", state="round-1", asks={**ASKS, "to": 7})
    await finished(stage)

    (ended,) = stage.steps("tool_ended")
    assert (ended["outcome"]["code"], ended["outcome"]["message"][:24]) == (
        "input_required",
        "its server asks for inpu",
    )
    assert [one["state"] for one in stage.calls("tool_cancel")] == ["round-1"]


@on_virtual_time
async def test_an_invalid_question_changes_nothing_while_a_person_is_asked() -> None:
    """As a valid one: the question that people saw was taken away from them."""
    agent = {"ask_person": True}
    stage = await RunStage.opened("r-1", steps=STEPS, agent=agent, tooling=lambda _: ())
    made = await come(stage.calls)
    stage.tools.answer(made, {}, kind="tool_progress", state="round-1", asks=ASKS)
    stage.tools.answer(made, {}, kind="tool_progress", state="round-2", asks={**ASKS, "to": 7})
    question = await come(lambda: stage.steps("input_requested"))
    stage.control({"kind": "input", "call_id": question["call_id"], "value": {"n": 1}})
    await until(lambda: bool(stage.calls("tool_continue")), 60)
    (onwards,) = stage.calls("tool_continue")
    stage.tools.answer(onwards["call"], {"kind": "ok", "value": "done"})
    await finished(stage)

    assert (onwards["state"], stage.calls("tool_cancel")) == ("round-1", [])
    (ended,) = stage.steps("tool_ended")
    assert ended["outcome"] == {"kind": "ok", "value": "done"}


@on_virtual_time
async def test_a_tool_asks_a_child_also_while_its_call_waits_for_a_person() -> None:
    """A lane may read the tool's question before the request that the tool published first."""
    answers = (says("part"), says("Done."))
    stage = await RunStage.opened(
        "r-1", steps=(STEPS[0], *answers), agent={"ask_person": True}, tooling=lambda _: ()
    )
    made = await come(stage.calls)
    stage.tools.answer(made, {}, kind="tool_progress", state="round-1", asks=ASKS)
    await come(lambda: stage.steps("input_requested"))
    stage.publish("child", agent=None, parent=made["parent"])
    await until(lambda: "child" in terminals(stage.broker), 60)
    stage.tools.answer(made, {"kind": "ok", "value": "done"})
    await finished(stage)

    assert terminals(stage.broker) == {"child": "result", "r-1": "result"}
