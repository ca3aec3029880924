"""A call whose arguments cannot be read ends alone, and the calls beside it are made."""

import json
from functools import cache
from typing import Any, get_args

import pytest

from answerbus.call_outcome import InvalidArgs
from answerbus.failure import Invalid
from answerbus.private.runs import Delegation
from answerbus.request import InlineRef
from services.worker.core.attempt.check import check
from services.worker.core.run.run import DELEGATE
from services.worker.core.run.step_schema import resolve_step
from services.worker.core.schema.resolved import (
    Accepted,
    AcceptedStep,
    JsonObject,
    ResolvedSchema,
    WireSchema,
)
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.unit.worker.core.run_builders import actions, call, definition, final, says, tool

DIALECTS = get_args(DialectName)
FREE = tool("orders.any", {"type": "object"})
AGENT = definition(tool(), FREE, delegate=Delegation())
DEEP = '{"a":' * 120 + "1" + "}" * 120
PART = {"name": "part", "description": "A part.", "instructions": "Do it."}


@cache
def compiled(dialect: DialectName) -> tuple[ResolvedSchema, WireSchema]:
    resolved = resolve_step(AGENT, final(), must_finish=False, may_delegate=True)
    assert isinstance(resolved, ResolvedSchema)
    wire = compile_for(dialect, resolved)
    assert isinstance(wire, WireSchema), wire
    return resolved, wire


def read(dialect: DialectName, *those: Any) -> object:
    return check(json.dumps(actions(*those)), *compiled(dialect))


def asks(schema: Any) -> dict[str, Any]:
    return {"kind": "tool_call", "name": DELEGATE, "args": {**PART, "json_schema": schema}}


def wants(args: Any) -> dict[str, Any]:
    return {"kind": "tool_call", "name": "orders.any", "args": args}


BAD = {
    "cut short": asks('{"type": "object", "prop'),
    "false": asks("false"),
    "too deep as text": asks(DEEP),
    "too deep": asks(json.loads(DEEP)),
    "no JSON value": asks("none"),
    "arguments cut short": wants('{"order_id": "47'),
    "arguments that are a list": wants("[1]"),
    "arguments too deep as text": wants(DEEP),
    "arguments too deep": wants(json.loads(DEEP)),
    "arguments that are no object": wants([1, 2]),
    "arguments of null": wants(None),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("bad", BAD)
def test_one_bad_call_ends_alone(dialect: DialectName, bad: str) -> None:
    step = read(dialect, call(), BAD[bad], call(order_id="4712"))

    assert isinstance(step, AcceptedStep), step
    first, second, third = step.calls
    assert (first.outcome, third.outcome) == (None, None)
    assert (first.args, third.args) == ({"order_id": "4711"}, {"order_id": "4712"})
    assert isinstance(second.outcome, InvalidArgs), second
    assert all(not problem.path.startswith("/actions") for problem in second.outcome.problems)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_wrong_with_the_answer_itself_is_no_fault_of_a_call(dialect: DialectName) -> None:
    finish = {"kind": "finish", "args": json.loads(DEEP)}
    for answer in ((call(), {"kind": "tool_call"}), (call(), {"kind": "x"}), (finish,)):
        assert isinstance(read(dialect, *answer), Invalid), answer
    assert isinstance(read(dialect, says("Done.")), Accepted)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("meant", ["text", 5, True, 0.5])
def test_a_scalar_in_json_text_reads_one_way(dialect: DialectName, meant: Any) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"v": {}},
        "required": ["v"],
        "additionalProperties": False,
    }
    resolved = final(InlineRef(name="any", wrapped=False, json_schema=schema))
    wire = compile_for(dialect, resolved)
    assert isinstance(wire, WireSchema), wire
    if '"json_text"' not in wire.text:
        return
    written = json.dumps({"v": {"json_text": json.dumps(meant)}})

    checked = check(written, resolved, wire)

    assert checked == Accepted({"v": meant})
