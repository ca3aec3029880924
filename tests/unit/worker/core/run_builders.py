"""Agents, tools and runs for tests to vary in what they are about."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

from pydantic import JsonValue

from answerbus.budget import AccountState, Budget, Spent, Usage
from answerbus.private.runs import (
    AgentDefinition,
    RunCallRecord,
    RunRecord,
    RunStepRecord,
    ToolDefinition,
)
from answerbus.registry import Registry
from answerbus.request import Request, SchemaRef, TextRef
from answerbus.tool_call import ToolCallRecord
from answerbus.tool_result import ToolResult
from answerbus.toolset_card import ToolCard
from services.text.digest import text_digest
from services.worker.core.run import transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import Run
from services.worker.core.run.step_schema import resolve_step
from services.worker.core.run.tool_access import ToolAccess
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import (
    Accepted,
    AcceptedStep,
    JsonObject,
    ResolvedSchema,
)
from tests.unit.worker.builders import NOW, ORIGIN, after, request

ORDER: JsonObject = {
    "type": "object",
    "properties": {"order_id": {"type": "string", "pattern": "^[0-9]+$"}},
    "required": ["order_id"],
    "additionalProperties": False,
}
USAGE = Usage(input_tokens=10, output_tokens=5)
ACCOUNT = AccountState(id="w-0", limit=Budget(attempts=20), spent=Spent(attempts=1))
REPLY_TOPIC = "answerbus.tool-results.v1"


def tool(name: str = "orders.get", schema: JsonObject | None = None, **card: Any) -> ToolDefinition:
    toolset, _, bare = name.partition(".")
    return ToolDefinition(
        toolset=toolset, card=ToolCard(name=bare, args_schema=schema or ORDER, **card)
    )


def definition(*tools: ToolDefinition, **more: Any) -> AgentDefinition:
    return AgentDefinition(
        name="support",
        version=1,
        instructions="You help.",
        tools=tools or (tool(),),
        **more,
    )


def call(name: str = "orders.get", **args: JsonValue) -> JsonObject:
    return {"kind": "tool_call", "name": name, "args": args or {"order_id": "4711"}}


def says(text: str) -> JsonObject:
    return {"kind": "text_response", "content": text}


def thinks(text: str) -> JsonObject:
    return {"kind": "thought", "content": text}


def actions(*those: JsonObject) -> JsonObject:
    return {"actions": [*those]}


def asked(**more: Any) -> Request:
    return request(agent={"name": "support"}, **more)


def final(ref: SchemaRef | None = None) -> ResolvedSchema:
    found = resolve(ref or TextRef(), Registry())
    assert isinstance(found, ResolvedSchema)
    return found


def step_schema(
    of: AgentDefinition, ref: SchemaRef | None = None, *, must_finish: bool = False
) -> ResolvedSchema:
    found = resolve_step(of, final(ref), must_finish=must_finish)
    assert isinstance(found, ResolvedSchema)
    return found


def step(of: AgentDefinition, *those: JsonObject) -> AcceptedStep:
    """What a model's answer comes to, as the worker reads it."""
    read = step_schema(of).read(actions(*those))
    assert isinstance(read, AcceptedStep), read
    return read


UNTRUSTED: tuple[dict[str, object], ...] = (
    {"context": {"instructions": "x", "facts": [{"name": "f", "value": 1}]}},
    {"context": {"instructions": "x", "messages": [{"role": "user", "content": "y"}]}},
    {"parent": {"request_id": "r-0", "call_id": "r-0.call.1.0"}},  # which a model wrote
)


def inputs(seconds: float = 0.0, of: Request | None = None) -> RunInputs:
    """Tokens differ, as those by chance do."""
    return RunInputs(
        request=of or asked(),
        deadline=after(3_600),
        partition=7,
        now=after(seconds),
        tools=ToolAccess(_chance, REPLY_TOPIC),
        problems_of=lambda _: (),
        is_taken=lambda _: False,
    )


_numbers = count(1)
_chance: Callable[[int], bytes] = lambda length: next(_numbers).to_bytes(length)  # noqa: E731


def taken(run: Run, *those: JsonObject, seconds: float = 0.0, of: Request | None = None) -> Change:
    """The run after one more step."""
    attempt = len(run.steps) + 1
    answer = step(run.definition, *those)
    return transitions.take_step(run, answer, attempt, USAGE, Usage(), ACCOUNT, inputs(seconds, of))


def sent(change: Change) -> list[ToolCallRecord]:
    return [event for event in change.written if isinstance(event, ToolCallRecord)]


def result(of: ToolCallRecord, value: JsonValue = "done", **more: Any) -> ToolResult:
    """What the tool server that read the call says of it."""
    body = {
        "call_id": of.call_id,
        "workflow_id": of.workflow_id,
        "token": of.reply.token,
        "outcome": {"kind": "ok", "value": value},
        **more,
    }
    return ToolResult.model_validate_json(json.dumps(body))


__all__ = ["NOW", "Accepted", "AcceptedStep"]


def records_of_two_steps() -> list[RunRecord | RunStepRecord | RunCallRecord]:
    """A run whose second step waits for its tool."""
    written: list[object] = []
    first = taken(Run(definition()), call(order_id="1"))
    answered = transitions.on_result(first.run, result(sent(first)[0]), inputs(1))
    assert answered is not None
    second = taken(answered.run, call(order_id="2"), seconds=2)
    for change in (first, answered, second):
        written += change.written
    head = RunRecord(
        request=asked(), body_digest=text_digest("x"), origin=ORIGIN, definition=definition()
    )
    return [head, *(one for one in written if isinstance(one, RunStepRecord | RunCallRecord))]
