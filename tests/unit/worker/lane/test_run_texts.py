"""What the text of a run is: of an answer that is not JSON, and with thoughts for debugging."""

from typing import Any

import pytest

from answerbus.topics import ATTEMPTS, RESULTS, RUNS, STEPS
from tests.unit.worker.builders import answered
from tests.unit.worker.core.run_builders import actions, call, says, thinks
from tests.unit.worker.lane.run_checks import cause, finished
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import events

pytestmark = pytest.mark.wide

TEXT = "Hello, I am no JSON."


@pytest.mark.parametrize(
    ("of_agent", "of_request", "is_text"),
    [
        ("retry", {}, False),
        ("text", {}, True),
        ("retry", {"malformed": "text"}, True),
        ("text", {"malformed": "retry"}, False),
    ],
)
@on_virtual_time
async def test_what_is_no_json_is_asked_again_or_the_text_as_agent_or_request_say(
    of_agent: str, of_request: dict[str, str], *, is_text: bool
) -> None:
    stage = RunStage(agent={"malformed": of_agent})
    stage.provider.reply = answered(TEXT)
    await stage.worker.open()
    stage.publish("r-1", agent={"name": "support", **of_request}, budget={"attempts": 2})
    await finished(stage)

    if is_text:
        assert [event["answer"] for event in events(stage.broker, RESULTS)] == [TEXT]
    else:
        assert cause(stage, "r-1") == "budget_exhausted"
    assert len(stage.provider.calls) == (1 if is_text else 2)


@pytest.mark.parametrize(
    ("settings", "answer"),
    [({}, "One.\n\nTwo."), ({"show_thoughts": True}, "One.\n\nTwo.\n\nCANARY-2")],
)
@on_virtual_time
async def test_texts_of_the_last_step_are_joined_and_thoughts_appended_where_an_agent_says_so(
    settings: dict[str, Any], answer: str
) -> None:
    last = actions(says("One."), thinks("CANARY-2"), says("Two."))
    stage = await RunStage.opened(
        "r-1", steps=(actions(thinks("CANARY-1"), call()), last), agent=settings
    )
    await finished(stage)

    assert [event["answer"] for event in events(stage.broker, RESULTS)] == [answer]
    rationales = [attempt["rationale"] for attempt in events(stage.broker, ATTEMPTS)]
    assert rationales == ["CANARY-1", "CANARY-2"]
    assert "CANARY" not in str(events(stage.broker, STEPS, RUNS))
    texts = [turn.text for prompt in stage.provider.prompts for turn in prompt.turns]
    assert "CANARY" not in "".join(texts)


@on_virtual_time
async def test_an_agent_that_remembers_thoughts_is_shown_them_and_no_other_event_has_them() -> None:
    steps = (actions(thinks("CANARY"), call()), actions(says("Done.")))
    stage = await RunStage.opened("r-1", steps=steps, agent={"remember_thoughts": True})
    await finished(stage)

    assert "CANARY" not in str(events(stage.broker, STEPS, RESULTS))
    texts = ["".join(turn.text for turn in prompt.turns) for prompt in stage.provider.prompts]
    assert ["CANARY" in text for text in texts] == [False, True]
