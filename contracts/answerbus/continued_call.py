"""Calls with which a server goes on later: its own state, questions to people, and answers."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue

from answerbus import limits
from answerbus.edited_args import small_json
from answerbus.tool_call import ToolCallRecord, ToolState
from answerbus.wire import OMIT_NONE, Reason, Wire


def _is_small_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(schema).encode()) > limits.INPUT_SCHEMA_BYTES_MAX:
        raise ValueError(f"at most {limits.INPUT_SCHEMA_BYTES_MAX:,} bytes")
    return schema


def _is_small(value: JsonValue) -> JsonValue:
    small_json(value, limits.TOOL_RESULT_BYTES_MAX)
    return value


InputSchema = Annotated[dict[str, Any], AfterValidator(_is_small_schema)]
InputValue = Annotated[JsonValue, AfterValidator(_is_small)]
Addressee = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS_MAX)]
InputNumber = Annotated[int, Field(ge=1, le=limits.CALL_INPUTS_MAX)]


class ToolQuestion(Wire):
    """A question of a tool to a person, during its call; the answer must fit `json_schema`."""

    question: Annotated[Reason, Field(min_length=1)]
    json_schema: InputSchema
    to: Annotated[Addressee | None, OMIT_NONE] = None
    expires_s: Annotated[int | None, Field(ge=1, le=limits.RUN_TTL_S_MAX), OMIT_NONE] = None


class GivenInput(Wire):
    """The answer of a person to the question of a tool; null: they decline to answer."""

    value: InputValue
    by: Reason


class ToolContinue(Wire):
    """Go on with a call by the `state` that its server kept; begin nothing again.

    `given` is the answer to its question. With it, a server goes on at most once where its tool
    runs at most once. Without it, to go on twice must do no harm. The result is that of `call`.
    """

    kind: Literal["tool_continue"] = "tool_continue"
    call: ToolCallRecord
    state: ToolState
    given: Annotated[GivenInput | None, OMIT_NONE] = None

    @property
    def call_id(self) -> str:
        """That of the call, as the other members are."""
        return self.call.call_id

    @property
    def request_id(self) -> str:
        """See `call_id`."""
        return self.call.request_id

    @property
    def workflow_id(self) -> str:
        """See `call_id`."""
        return self.call.workflow_id

    @property
    def toolset(self) -> str:
        """See `call_id`."""
        return self.call.toolset

    @property
    def at(self) -> datetime:
        """See `call_id`."""
        return self.call.at
