"""What runs of agents do in an event loop: steps taken, results and answers of people applied."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import get_args

from pydantic import JsonValue, ValidationError

from answerbus import json_text
from answerbus.control import Input, InputRequested
from answerbus.envelope import decode
from answerbus.limits import ANSWER_BYTES_MAX
from answerbus.private.runs import Delegation
from answerbus.registry import Registry
from answerbus.request import InlineRef
from answerbus.tool_result import ToolResult
from services.worker.core.attempt.check import check
from services.worker.core.guard.effort import TooMuchWorkError, sparing
from services.worker.core.run import transitions
from services.worker.core.run.asked_calls import wanted_children, wanted_questions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.run import ASK_PERSON, Run
from services.worker.core.run.tool_report import read_report
from services.worker.core.schema.resolved import AcceptedStep
from services.worker.dialects.dispatch import DialectName
from services.worker.dialects.schema_cache import Compiled, SchemaCache
from tests.unit.worker.builders import NOW, ORIGIN
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    USAGE,
    asked,
    call,
    definition,
    inputs,
    result,
    sent,
    step_schema,
    taken,
    tool,
)

DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
STEPS = 11  # that the run took before, each with as many calls as are made
CALLS = 32
AGENT = definition(
    tool(schema={"type": "object"}, repeatable=True),
    delegate=Delegation(children_max=64),
    ask_person=True,
    parallel_max=CALLS,
)
Work = Callable[[], object]


def inline_ref(schema: str) -> InlineRef | None:
    """The reference of a JSON text that is a schema; None for all others."""
    found = json_text.parse(schema.encode())
    if not (isinstance(found, json_text.Parsed) and isinstance(found.value, dict | bool)):
        return None
    try:
        return InlineRef(name="found", wrapped=False, json_schema=found.value)
    except ValidationError:
        return None


@cache
def _compiled(schema: str, dialect: DialectName) -> Compiled | None:
    ref = inline_ref(schema)
    return SchemaCache(Registry()).compiled(ref, dialect) if ref else None


def decoded(data: bytes) -> Work | None:
    """An answer in a dialect; the first line is the schema, compiled before."""
    schema, _, answer = data.decode(errors="replace").partition("\n")
    found = _compiled(schema, DIALECTS[len(data) % len(DIALECTS)])
    if len(answer.encode()) > ANSWER_BYTES_MAX or not isinstance(found, tuple):
        return None

    def work() -> object:
        try:
            with sparing():
                return check(answer, *found)
        except TooMuchWorkError as left:
            return left

    return work


@cache
def _run() -> Run:
    """After some steps whose calls have ended."""
    run = Run(AGENT)
    for n in range(STEPS):
        change = taken(run, *(call(order_id=f"{n}.{place}") for place in range(CALLS)))
        for order in sent(change):
            change = transitions.on_result(change.run, result(order), inputs(1)) or change
        run = change.run
    return run


def _value(data: bytes) -> JsonValue | json_text.NotJson:
    found = json_text.parse(data)
    return found.value if isinstance(found, json_text.Parsed) else found


def stepped(data: bytes) -> Work | None:
    """An answer that calls tools, as its step is settled; its children are made before."""
    value = _value(data)
    step = None if isinstance(value, json_text.NotJson) else step_schema(AGENT).read(value)
    if not isinstance(step, AcceptedStep):
        return None
    request, run = asked(), _run()
    children = dict(wanted_children(request, run, step))
    list(wanted_questions(request, run, step))  # which keeps what they took
    around = replace(inputs(of=request), children=children, origin=ORIGIN)

    def work() -> object:
        return _written(transitions.take_step(run, step, STEPS + 1, USAGE, USAGE, ACCOUNT, around))

    return work


def resulted(data: bytes) -> Work | None:
    """A value that a tool gives, as its call ends by it."""
    value = _value(data)
    if isinstance(value, json_text.NotJson):
        return None
    change = taken(_run(), call(order_id="last"))
    report = read_report(result(sent(change)[0], value).model_dump_json().encode())
    if not isinstance(report, ToolResult):
        return None
    return lambda: _written(transitions.on_result(change.run, report, inputs(1)))


def answered(data: bytes) -> Work | None:
    """A record with the answer of a person to the question of a run."""
    if isinstance(_value(data), json_text.NotJson):
        return None
    change = taken(_run(), call(ASK_PERSON, question="To where?", json_schema={}))
    (asks,) = (event for event in change.written if isinstance(event, InputRequested))
    said = {"kind": "input", "call_id": asks.call_id, "workflow_id": asks.workflow_id, "by": "x"}
    rest = json.dumps({**said, "at": NOW.isoformat()})[1:].encode()
    record = b'{"value":' + data + b"," + rest

    def work() -> object:
        given = decode(record)
        if not isinstance(given, Input):
            return given
        found = transitions.on_input(change.run, given, inputs(1))
        return _written(found) if isinstance(found, Change) else found

    return work


def _written(change: Change | None) -> object:
    return [event.model_dump_json() for event in change.written] if change else None
