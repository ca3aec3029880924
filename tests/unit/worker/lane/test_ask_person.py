"""A question of a run to a person, over crashes: the first answer that fits counts, once."""

import asyncio

from answerbus.topics import CONTROLS
from services.worker.core.json_schema.keywords import JsonObject
from tests.unit.worker.core.run_builders import actions, says
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.virtual import on_virtual_time

SCHEMA: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ARGS: JsonObject = {"question": "How many?", "json_schema": SCHEMA}
STEPS = (
    actions({"kind": "tool_call", "name": "ask_person", "args": ARGS}),
    actions(says("Done.")),
)


@on_virtual_time
async def test_a_question_outlives_crashes_and_is_answered_once() -> None:
    stage = await RunStage.opened("r-1", steps=STEPS, agent={"ask_person": True})
    while not (found := stage.steps("input_requested")):
        await asyncio.sleep(0.5)
    await stage.crash()
    await stage.worker.open()
    answer = {"kind": "input", "call_id": found[0]["call_id"]}
    stage.control({**answer, "value": {"n": 0}}, CONTROLS)
    stage.control({**answer, "value": {"n": "many"}})
    stage.control({**answer, "value": {"n": 1}})
    stage.control({**answer, "value": {"n": 2}})
    await finished(stage)

    applied = stage.steps("control_applied")
    assert sorted(event["effect"] for event in applied) == [
        "answered",
        "invalid",
        "nothing",
        "nothing",
    ]
    (invalid,) = (event for event in applied if event["effect"] == "invalid")
    assert [problem["path"] for problem in invalid["problems"]] == ["/n"]
    (ended,) = stage.steps("tool_ended")
    assert ended["outcome"] == {"kind": "ok", "value": {"n": 1}}
    assert stage.tools.ran == []
    assert stage.open_records() == {}
