"""Questions of runs to people: what may be asked, who answers first, and what does not fit."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from answerbus.cause import Cancelled
from answerbus.control import INPUT_DEPTH_MAX, Input, InputRequested
from answerbus.failure import Problem
from answerbus.limits import INPUT_SCHEMA_BYTES_MAX, REASON_BYTES_MAX
from answerbus.step import Step, ToolEnded
from answerbus.tool_call import ToolCallRecord
from services.worker.core.run import transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.next_step import next_step_request
from services.worker.core.run.run import ASK_PERSON, Run
from tests.unit.worker.builders import after
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    USAGE,
    asked,
    call,
    definition,
    inputs,
    step,
    taken,
)

ADDRESS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"street": {"type": "string"}, "floor": {"type": "integer"}},
    "required": ["street"],
}
FITS = {"street": "High Street"}
RUN = Run(definition(ask_person=True))


def question(**changes: Any) -> dict[str, JsonValue]:
    args = {"question": "To which address?", "json_schema": ADDRESS, **changes}
    return {"kind": "tool_call", "name": ASK_PERSON, "args": args}


def requested(change: Change) -> list[InputRequested]:
    return [event for event in change.written if isinstance(event, InputRequested)]


def given(of: InputRequested, value: Any, **changes: Any) -> Input:
    body = {"call_id": of.call_id, "workflow_id": of.workflow_id, "by": "ops", "at": after(9)}
    return Input.model_validate({**body, "value": value, **changes})


def ended(change: Change | None) -> list[dict[str, Any]]:
    written = change.written if change else ()
    return [e.outcome.model_dump() for e in written if isinstance(e, ToolEnded)]


def answered(change: Change, value: Any, seconds: float = 10.0) -> Any:
    (asking,) = requested(change)
    return transitions.on_input(change.run, given(asking, value), inputs(seconds))


def test_a_question_is_asked_of_people_and_of_no_tool_server() -> None:
    change = taken(RUN, question(to="shipping", expires_s=60))

    (asking,) = requested(change)
    assert (asking.question, asking.json_schema, asking.to) == (
        "To which address?",
        ADDRESS,
        "shipping",
    )
    assert asking.expires_at == after(60)
    assert not any(isinstance(event, ToolCallRecord) for event in change.written)
    (event,) = (event for event in change.written if isinstance(event, Step))
    assert [one.state for one in event.calls] == ["awaits_input"]
    assert change.run.stage == "awaits_approval"


def test_the_first_answer_that_fits_ends_the_call_and_a_second_one_is_too_late() -> None:
    change = taken(RUN, question())

    wrong = answered(change, {"street": 1})
    assert [problem.path for problem in wrong] == ["/street"]
    first = answered(change, FITS)
    assert ended(first) == [{"kind": "ok", "value": FITS}]
    (asking,) = requested(change)
    assert transitions.on_input(first.run, given(asking, FITS), inputs(11)) is None


def test_an_answer_to_no_question_changes_nothing() -> None:
    change = taken(RUN, question(), call())
    (asking,) = requested(change)

    for call_id in ("r-1.call.9.0", asking.call_id.replace(".1.0", ".1.1")):
        other = given(asking, FITS, call_id=call_id)
        assert transitions.on_input(change.run, other, inputs(1)) is None


def test_a_question_expires_and_the_run_goes_on() -> None:
    change = taken(RUN, question(expires_s=60))

    assert transitions.on_timeout(change.run, inputs(59)).written == ()
    late = transitions.on_timeout(change.run, inputs(60))
    assert ended(late) == [{"kind": "expired"}]
    assert late.run.open == ()


def test_the_end_of_its_run_ends_a_question() -> None:
    change = taken(RUN, question())
    cancel = Cancelled(by="me", reason="enough")

    stopped = transitions.stopped(change.run, cancel, inputs(1))
    assert [one["kind"] for one in ended(stopped)] == ["cancelled"]
    assert ended(transitions.stopped(change.run, cancel, inputs(3_601))) == [{"kind": "expired"}]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"question": "x" * (REASON_BYTES_MAX + 1)}, "/question"),
        ({"json_schema": {"enum": ["x" * INPUT_SCHEMA_BYTES_MAX]}}, "/json_schema"),
        ({"question": ""}, "/question"),
        ({"json_schema": 1}, "/json_schema"),
        ({"expires_s": 0}, "/expires_s"),
        ({"to": "x" * 129}, "/to"),
        ({"others": 1}, ""),
    ],
)
def test_what_cannot_be_asked_ends_with_its_step(changes: dict[str, Any], path: str) -> None:
    change = taken(RUN, question(**changes))

    assert requested(change) == []
    (outcome,) = ended(change)
    assert outcome["kind"] == "invalid_args"
    assert outcome["problems"][0]["path"].startswith(path)


def test_a_schema_is_judged_as_those_of_callers_are() -> None:
    """By the planner, which compiles it apart from the event loop."""
    hostile = Problem.of("/json_schema", "hostile", "no such schema")
    judged = []

    def problems_of(request: Any) -> tuple[Problem, ...]:
        judged.append(request.answer_schema.json_schema)
        return (hostile,)

    refused = replace(inputs(), problems_of=problems_of)
    answer = step(RUN.definition, question())
    change = transitions.take_step(RUN, answer, 1, USAGE, USAGE, ACCOUNT, refused)

    assert judged == [ADDRESS]
    assert ended(change)[0]["problems"] == (hostile.model_dump(),)


DEEP = json.loads("[" * (INPUT_DEPTH_MAX + 1) + "]" * (INPUT_DEPTH_MAX + 1))


@pytest.mark.parametrize("value", ["x" * 65_536, [[]] * 20_000, DEEP])
def test_an_answer_that_no_record_could_hold_is_no_event(value: Any) -> None:
    (asking,) = requested(taken(RUN, question()))
    with pytest.raises(ValidationError):
        given(asking, value)


def test_only_agents_that_may_ask_are_told_of_it() -> None:
    plain = Run(definition())

    assert "ask_person" in next_step_request(asked(), RUN, must_finish=False).context.instructions
    assert (
        "ask_person"
        not in next_step_request(asked(), plain, must_finish=False).context.instructions
    )
    (outcome,) = ended(taken(plain, question()))
    assert outcome["kind"] == "unknown_tool"


def test_an_answer_of_a_person_is_no_untrusted_text() -> None:
    assert not answered(taken(RUN, question()), FITS).run.has_read_untrusted
