"""`ask_person`: the tool by which a run asks people, and the check of what they answer; pure."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from pydantic import JsonValue

from answerbus.control import InputRequested
from answerbus.failure import Problem
from answerbus.limits import (
    INPUT_SCHEMA_BYTES_MAX,
    NAME_CHARS_MAX,
    RUN_TTL_S_MAX,
)
from answerbus.request import Request
from services.worker.core.guard.effort import LOOP_NS, TooMuchWorkError, sparing
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run.children import child_of
from services.worker.core.run.delegation import DelegateArgs, read_args
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import Run, ToolCall
from services.worker.core.schema.validator import SchemaValidator, compile_schema, too_costly

CHECK_NS_MAX = 10_000_000  # of one answer: an event loop waits
COMPILED_MAX = 256  # schemas kept compiled in a process
OBJECTS_MAX = 250  # in the schema of a question: each takes some 40 µs to weigh and to compile
_TOO_MANY = Problem.of("", "too_costly", f"at most {OBJECTS_MAX} objects")
NAME = "input"
_PATHS = {"/description": "/question", "/instructions": "/question"}

ARGS_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1},
        "json_schema": {"type": "object"},
        "to": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX},
        "expires_s": {"type": "integer", "minimum": 1, "maximum": RUN_TTL_S_MAX},
    },
    "required": ["question", "json_schema"],
    "additionalProperties": False,
}
HOW_TO_ASK = (
    "With `ask_person` you ask a person for what no tool can say: `question` says what, "
    '`json_schema` is the JSON Schema of the answer. For example: {"kind": "tool_call", '
    '"name": "ask_person", "args": {"question": "To which address?", "json_schema": '
    '{"type": "object", "properties": {"street": {"type": "string"}}, "required": '
    '["street"]}}}. The answer may take days.'
)


def read_question(above: Request, run: Run, args: JsonObject) -> Request | tuple[Problem, ...]:
    """The question as a request that models could be asked, or a fault; `args` are valid.

    So its schema is looked at as those of callers are, and compiled where theirs are; and once
    more in an event loop, for the answer, so that it must not take long.
    """
    question, schema = str(args["question"]), args["json_schema"]
    text = json.dumps(schema)
    if len(text) > INPUT_SCHEMA_BYTES_MAX:
        expected = f"at most {INPUT_SCHEMA_BYTES_MAX:,} bytes"
        return (Problem.of("/json_schema", "too_large", expected),)
    made = DelegateArgs(NAME, question, question, read_args(args).json_schema, (), None, None)
    found = child_of(above, run, made)
    if isinstance(found, Request):
        costly = _too_many(text) or _too_costly(text)
        return found if costly is None else (costly.under("/json_schema"),)
    return tuple(one.model_copy(update={"path": _PATHS.get(one.path, one.path)}) for one in found)


def problems_of_schema(schema: JsonObject) -> tuple[Problem, ...]:
    """Why a schema that no step was held against cannot be that of answers; compiles it."""
    text = json.dumps(schema)
    if problem := _too_many(text):
        return (problem,)
    found = _compiled(text)
    return () if isinstance(found, SchemaValidator) else found


def is_quick(schema: JsonObject) -> bool:
    """Whether a schema is compiled where other requests wait; compiles it."""
    return isinstance(_compiled(json.dumps(schema)), SchemaValidator)


def problems_of_answer(schema: JsonObject, value: JsonValue) -> tuple[Problem, ...]:
    """Why a value does not answer a question whose answers have that schema."""
    validator = _compiled(json.dumps(schema))
    if not isinstance(validator, SchemaValidator):
        return validator  # by a version whose bounds were others
    try:
        with sparing(CHECK_NS_MAX):
            return validator.problems(value)
    except TooMuchWorkError:
        return (Problem.of("", "too_costly", "a value that takes less time to check"),)


def _too_many(text: str) -> Problem | None:
    return _TOO_MANY if text.count("{") > OBJECTS_MAX else None


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(text: str) -> SchemaValidator | tuple[Problem, ...]:
    found = compile_schema(json.loads(text), LOOP_NS)
    return found if isinstance(found, SchemaValidator) else found.problems


@lru_cache(maxsize=COMPILED_MAX)
def _too_costly(text: str) -> Problem | None:
    return too_costly(json.loads(text), LOOP_NS)


def expires_at(seconds: object, inputs: RunInputs) -> datetime:
    """Until when a person can answer, who has so many seconds."""
    if not isinstance(seconds, int | float):  # a whole number may be written as 60.0
        return inputs.deadline
    return min(inputs.now + timedelta(seconds=seconds), inputs.deadline)


def input_requested(
    call: ToolCall,
    asks: Mapping[str, Any],
    until: datetime,
    inputs: RunInputs,
    *,
    tool: str | None = None,
    number: int = 1,
) -> InputRequested:
    """A person is asked: by the model with its arguments, or by a `tool` with its question."""
    return InputRequested(
        event_id=f"{call.asked.call_id}.input" + (f".{number}" if number > 1 else ""),
        request_id=inputs.request.request_id,
        workflow_id=inputs.request.workflow_id,
        call_id=call.asked.call_id,
        question=asks["question"],
        json_schema=asks["json_schema"],
        to=asks.get("to"),
        tool=tool,
        number=number,
        expires_at=until,
        at=inputs.now,
    )
