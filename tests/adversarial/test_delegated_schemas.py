"""Schemas that a model writes for `delegate`: judged as those of requests, before any spend.

A step with such a call has no effect but its events: what cannot be asked ends in it, typed.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from answerbus import json_text
from answerbus.budget import Usage
from answerbus.call_outcome import InvalidArgs
from answerbus.envelope import Undecodable, decode, encode
from answerbus.limits import CHILD_SCHEMA_BYTES_MAX
from answerbus.outcome import Origin
from answerbus.private.runs import Delegation, RunCallRecord, RunChildRecord
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.attempt.check import check
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.run import transitions
from services.worker.core.run.asked_calls import wanted_children
from services.worker.core.run.call_changes import Change
from services.worker.core.run.made_child import MadeChild
from services.worker.core.run.run import Run
from services.worker.core.run.step_schema import resolve_step
from services.worker.core.schema.resolved import (
    AcceptedStep,
    JsonObject,
    ResolvedSchema,
    WireSchema,
)
from services.worker.dialects.dispatch import compile_for
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend, Planner
from tests.corpora import FOLDER, OTHERS, Corpora, own_cases, raw
from tests.cpu_time import cpu_time
from tests.unit.worker.builders import NOW
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    USAGE,
    actions,
    asked,
    definition,
    final,
    inputs,
)
from tests.unit.worker.lane.world import FakeProvider

SECONDS_MAX = 1.0
NOTHING_USED = Usage()
HOSTILE = [pytest.param(raw(case), id=case["id"]) for case in own_cases().hostile_schemas()]
HAS_CORPORA = all((FOLDER / name).is_dir() for name in OTHERS)
ORIGIN = Origin(topic="answerbus.requests.v1", partition=0, offset=1, timestamp=NOW)


def planner() -> Planner:
    facts = ProfileFacts("default", "fake", "m", 100, 60.0, None)
    backend = Backend(facts, "openai", FakeProvider(), ProfileLimiter(9))
    return Planner({"default": backend}, Registry())


@pytest.fixture(scope="module")
def stepping() -> tuple[Run, ResolvedSchema, WireSchema]:
    agent = definition().model_copy(update={"delegate": Delegation()})
    resolved = resolve_step(agent, final(), must_finish=False, may_delegate=True)
    assert isinstance(resolved, ResolvedSchema)
    wire = compile_for("prompted", resolved)
    assert isinstance(wire, WireSchema)
    return Run(agent), resolved, wire


def step_with(
    stepping: tuple[Run, ResolvedSchema, WireSchema], schema: bytes
) -> AcceptedStep | None:
    """The answer of a model that writes the text of a schema into its arguments."""
    _, resolved, wire = stepping
    args: JsonObject = {"name": "n", "description": "d", "instructions": "i", "json_schema": "HERE"}
    answer = json.dumps(actions({"kind": "tool_call", "name": "delegate", "args": args}))
    text = answer.replace('"HERE"', schema.decode(errors="replace"))
    checked = check(text, resolved, wire)
    return checked if isinstance(checked, AcceptedStep) else None


def taken(run: Run, step: AcceptedStep, of: Planner) -> Change:
    children = dict(wanted_children(asked(), run, step))
    for child in children.values():
        if isinstance(child, MadeChild):
            asyncio.run(of.look_ahead(child.request))
    around = replace(
        inputs(of=asked()),
        origin=ORIGIN,
        problems_of=of.problems_of,
        attempts_left=9,
        children=children,
    )
    return transitions.take_step(run, step, 1, USAGE, NOTHING_USED, ACCOUNT, around)


def inline_works(schema: Any, of: Planner) -> bool:
    """Whether a request could ask for it."""
    ref = InlineRef(name="n", description="d", json_schema=schema)
    request = asked().model_copy(update={"answer_schema": ref})
    return isinstance(of.plan(request, asyncio.run(of.prepare(request))), Plan)


@pytest.mark.parametrize("schema", HOSTILE)
def test_a_hostile_schema_comes_back_typed_or_is_harmless(
    schema: bytes, stepping: tuple[Run, ResolvedSchema, WireSchema]
) -> None:
    with cpu_time() as cpu:
        step, of = step_with(stepping, schema), planner()
        if step is None:
            return  # no JSON, or no object: the answer itself was not valid
        change = taken(stepping[0], step, of)
    assert cpu.is_below(SECONDS_MAX)

    parsed = json_text.parse(schema.decode(errors="replace").encode())
    assert isinstance(parsed, json_text.Parsed)
    is_object = isinstance(parsed.value, dict)
    (call,) = change.run.steps[0].calls
    children = [one for one in change.written if isinstance(one, RunChildRecord)]
    if call.outcome is None:
        assert inline_works(parsed.value, of)
        (child,) = children
        assert isinstance(of.plan(child.request), Plan)
    else:
        assert isinstance(call.outcome, InvalidArgs)
        assert all(problem.path.startswith("/json_schema") for problem in call.outcome.problems)
        can_be_asked = is_object and len(schema) <= CHILD_SCHEMA_BYTES_MAX
        assert not (can_be_asked and inline_works(parsed.value, of))
        assert children == []
    for event in change.written:  # a successor must be able to read all of it
        assert not isinstance(decode(encode(event).value), Undecodable)


def real_world() -> Iterator[tuple[str, Any]]:
    for case in Corpora(FOLDER).schemas():
        if len(json.dumps(case["schema"], ensure_ascii=False).encode()) <= CHILD_SCHEMA_BYTES_MAX:
            yield case["id"], case["schema"]


@pytest.mark.skipif(not HAS_CORPORA, reason="no corpora beside the project")
def test_real_schemas_are_asked_as_often_as_those_of_requests(
    stepping: tuple[Run, ResolvedSchema, WireSchema],
) -> None:
    of, count = planner(), 0
    for name, schema in real_world():
        count += 1
        step = step_with(stepping, json.dumps(schema).encode())
        assert step is not None, name
        with cpu_time() as cpu:
            change = taken(stepping[0], step, of)
        assert cpu.is_below(SECONDS_MAX), name
        (call,) = change.run.steps[0].calls
        works = isinstance(schema, dict) and inline_works(schema, of)
        assert (call.outcome is None) == works, name
        states = [one for one in change.written if isinstance(one, RunCallRecord)]
        assert len(states) == 1
    assert count > 100
