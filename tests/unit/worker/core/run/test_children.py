"""Records of children: what a successor must be able to read."""

from dataclasses import replace
from datetime import timedelta

import pytest

from answerbus.budget import Usage
from answerbus.call_outcome import InvalidArgs
from answerbus.envelope import decode
from answerbus.limits import PROBLEMS_MAX, RUN_TTL_S_MAX, USES_MAX
from answerbus.private.runs import Delegation, RunChildRecord
from services.text.digest import canonical_digest
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run import transitions
from services.worker.core.run.run import Run
from tests.unit.worker.builders import ORIGIN
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    USAGE,
    asked,
    definition,
    inputs,
    step,
    taken,
)
from tests.unit.worker.lane.delegating import delegate

WHOLE_TIME = timedelta(seconds=RUN_TTL_S_MAX)
SCHEMA: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PART: JsonObject = {
    "kind": "tool_call",
    "name": "delegate",
    "args": {
        "name": "part",
        "description": "A part.",
        "instructions": "Do it.",
        "json_schema": SCHEMA,
        "agent": "support",
    },
}


@pytest.mark.parametrize("behind_ms", [-1, 0, 1, 900])
def test_a_child_can_be_read_again_where_the_time_is_behind_that_of_the_broker(
    behind_ms: int,
) -> None:
    """Of a run that lasts as long as any may: else its lane would not open again."""
    agent = definition(delegate=Delegation(agents=("support",)))
    around = replace(
        inputs(of=asked(ttl_s=RUN_TTL_S_MAX)),
        now=ORIGIN.timestamp - timedelta(milliseconds=behind_ms),
        deadline=ORIGIN.timestamp + WHOLE_TIME,
        origin=ORIGIN,
        attempts_left=9,
    )
    change = transitions.take_step(
        Run(agent), step(agent, PART), 1, USAGE, Usage(), ACCOUNT, around
    )

    (child,) = (event for event in change.written if isinstance(event, RunChildRecord))
    assert decode(child.model_dump_json().encode()) == child
    assert child.body_digest == canonical_digest(child.request.model_dump(mode="json"))
    assert child.origin.timestamp + timedelta(seconds=child.request.ttl_s) <= around.deadline


def test_each_reference_of_a_child_may_be_unknown() -> None:
    """They are more than a record lists problems: a step that raises ends its lane."""
    wrong = delegate(use=[f"fact:{number}" for number in range(USES_MAX)])
    change = taken(Run(definition(delegate=Delegation())), wrong)

    (call,) = change.run.steps[0].calls
    assert isinstance(call.outcome, InvalidArgs)
    paths = [problem.path for problem in call.outcome.problems]
    assert paths == [f"/use/{number}" for number in range(PROBLEMS_MAX)]
