"""Questions of runs to people: what may be asked, who answers first, and what does not fit."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example
from hypothesis import given as drawn
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from answerbus.cause import Cancelled
from answerbus.control import Input, InputRequested
from answerbus.edited_args import PERSONS_JSON_DEPTH_MAX, small_json
from answerbus.failure import Problem
from answerbus.json_text import NotJson, parse
from answerbus.limits import INPUT_SCHEMA_BYTES_MAX, REASON_BYTES_MAX, TOOL_RESULT_BYTES_MAX
from answerbus.step import Step, ToolEnded
from answerbus.tool_call import ToolCallRecord
from services.worker.core.guard.effort import LOOP_NS
from services.worker.core.guard.patterns import weigh
from services.worker.core.json_schema.document import Document
from services.worker.core.run import ask_person, transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.next_step import next_step_request
from services.worker.core.run.run import ASK_PERSON, Run
from services.worker.core.schema import validator
from services.worker.core.schema.validator import SchemaValidator, compile_schema, too_costly
from tests.cpu_time import cpu_time
from tests.unit.worker.builders import after
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    USAGE,
    AcceptedStep,
    actions,
    asked,
    call,
    definition,
    inputs,
    step,
    step_schema,
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


def test_a_question_that_was_just_answered_is_not_asked_again() -> None:
    first = taken(RUN, question())
    again = taken(answered(first, FITS).run, question(), seconds=20)

    assert requested(again) == []
    (call_id,) = (one.call_id for one in requested(first))
    assert ended(again) == [{"kind": "ok", "value": FITS, "same_as": call_id}]
    assert again.run.open == ()
    other = taken(answered(first, FITS).run, question(question="To which floor?"), seconds=20)
    assert len(requested(other)) == 1


def test_an_answer_to_another_question_of_the_call_does_not_count() -> None:
    asked = taken(RUN, question())
    (asking,) = requested(asked)

    assert transitions.on_input(asked.run, given(asking, FITS, number=2), inputs(10)) is None
    counted = transitions.on_input(asked.run, given(asking, FITS), inputs(10))
    assert isinstance(counted, Change)
    assert ended(counted) == [{"kind": "ok", "value": FITS}]


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


TEXTS = st.text(st.characters(exclude_categories=())) | st.text("x\n\x00", max_size=3_000)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
SECONDS = VALUES | st.integers(0, 600_000) | st.floats(0, 600_000).map(round).map(float)
SCHEMAS = (
    st.just(ADDRESS)
    | st.dictionaries(st.sampled_from(["type", "enum", "pattern", "$ref", "$id", "not"]), VALUES)
    | st.recursive(VALUES, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner))
)
ARGS = st.fixed_dictionaries(
    {"question": TEXTS | VALUES, "json_schema": SCHEMAS},
    optional={"to": TEXTS | VALUES, "expires_s": SECONDS},
)


@pytest.mark.wide
@drawn(ARGS)
@example({"question": "Which?", "json_schema": ADDRESS, "to": "the customer"})
@example({"question": "Which?", "json_schema": ADDRESS, "to": "\x00\n\u202e" + "\U0001f600" * 125})
@example({"question": "\x00", "json_schema": {}, "to": " ", "expires_s": 6.0})
@example({"question": "\ud800", "json_schema": ADDRESS, "to": "\udfff"})
@example({"question": "Which?", "json_schema": {"maximum": 10**400}, "expires_s": 10**400})
def test_whatever_a_model_asks_is_an_event_or_ends_its_call(args: dict[str, JsonValue]) -> None:
    """And never an error of its lane, which would pay for that answer again."""
    one: dict[str, JsonValue] = {"kind": "tool_call", "name": ASK_PERSON, "args": args}
    text = json.dumps(actions(one)).encode()
    parsed = parse(text)
    if isinstance(parsed, NotJson):
        return  # a malformed answer, whose model is told so
    answer = step_schema(RUN.definition).read(parsed.value)
    assert isinstance(answer, AcceptedStep)

    change = transitions.take_step(RUN, answer, 1, USAGE, USAGE, ACCOUNT, inputs())
    events, ends = requested(change), ended(change)
    assert [end["kind"] for end in ends] == ([] if events else ["invalid_args"])
    for event in events:
        assert InputRequested.model_validate_json(event.model_dump_json()) == event
        assert event.to == args.get("to")


def test_seconds_are_a_whole_number_however_it_is_written() -> None:
    (asking,) = requested(taken(RUN, question(expires_s=60.0)))
    assert asking.expires_at == after(60)


COSTLY: list[tuple[dict[str, JsonValue], str]] = [
    ({"pattern": "^.{1,600}-$"}, "/json_schema/pattern"),
    ({"allOf": [{"pattern": r"\w{30}" + str(n)} for n in range(60)]}, "/json_schema/allOf/"),
    ({"pattern": r"\s" * 1_000}, "/json_schema"),
]


@pytest.mark.parametrize(("schema", "path"), COSTLY)
def test_a_schema_that_would_hold_an_event_loop_is_not_asked(
    schema: dict[str, JsonValue], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, native = [], validator._native

    def counted(document: Document) -> Any:
        compiled.append(document.root)
        return native(document)

    monkeypatch.setattr(validator, "_native", counted)
    change = taken(RUN, question(json_schema=schema))

    assert requested(change) == []
    (outcome,) = ended(change)
    assert outcome["kind"] == "invalid_args"
    assert outcome["problems"][0]["path"].startswith(path)
    assert ask_person.problems_of_schema(schema)
    assert ask_person.problems_of_answer(schema, {})  # of a version that has asked it
    assert schema not in compiled


def test_a_question_with_many_schemas_is_not_asked_and_others_are_weighed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weighed = []

    def counted(document: Document, *limit: int) -> dict[str, int] | Problem:
        weighed.append(document.root)
        return weigh(document, *limit)

    monkeypatch.setattr(validator, "weigh", counted)
    many: dict[str, JsonValue] = {"allOf": [{}] * (ask_person.OBJECTS_MAX - 1)}
    too_many: dict[str, JsonValue] = {"allOf": [{}] * ask_person.OBJECTS_MAX}

    assert ask_person.problems_of_schema(many) == ()
    assert weighed.count(many) == 1
    assert ask_person.problems_of_schema(too_many)[0].code == "too_costly"
    assert requested(taken(RUN, question(json_schema=too_many))) == []
    assert too_many not in weighed


def test_what_is_asked_compiles_within_the_bound_of_a_loop() -> None:
    patterns = (r"^\d{4}-\d{2}-\d{2}$", r"^[\w.+-]+@[\w-]+\.[\w.-]+$", "^[A-Z]{2}[0-9A-Z]{13,32}$")
    for pattern in patterns:
        schema: dict[str, JsonValue] = {"type": "string", "pattern": pattern}
        assert requested(taken(RUN, question(json_schema=schema)))
        assert isinstance(compile_schema(schema), SchemaValidator)
        assert too_costly(schema, LOOP_NS) is None


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


DEEP = json.loads("[" * (PERSONS_JSON_DEPTH_MAX + 1) + "]" * (PERSONS_JSON_DEPTH_MAX + 1))


@pytest.mark.parametrize("value", ["x" * 65_536, [[]] * 20_000, DEEP])
def test_an_answer_that_no_record_could_hold_is_no_event(value: Any) -> None:
    (asking,) = requested(taken(RUN, question()))
    with pytest.raises(ValidationError):
        given(asking, value)


@pytest.mark.parametrize("number", [0.00001, 0.000015, 1.5e-300, 1e16, -1.0, 7])
def test_an_answer_may_be_as_long_as_its_text_says(number: float) -> None:
    """Also of numbers for which other writers take more characters."""
    value: JsonValue = [number] * 1_000
    size = len(json.dumps(value))

    small_json(value, size)
    with pytest.raises(ValueError, match=f"at most {size - 1:,} bytes"):
        small_json(value, size - 1)


def test_an_answer_far_beyond_the_limit_is_not_written_as_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """17,000 numbers, which are 153 KB, took 20 ms to write."""
    monkeypatch.setattr(json, "dumps", None)

    with pytest.raises(ValueError, match="at most 65,536 bytes"):
        small_json([1.5e-300] * 17_000, 65_536)


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


def test_a_long_answer_holds_no_event_loop() -> None:
    """Brackets are looked for in all of it, when it is read and when it is written."""
    change = taken(RUN, question(json_schema={"type": "string"}))
    text = "x" * (TOOL_RESULT_BYTES_MAX - 2)
    with cpu_time() as took:
        end = answered(change, text)

    assert took.is_below(0.008)
    assert ended(end)[0]["value"] == text
