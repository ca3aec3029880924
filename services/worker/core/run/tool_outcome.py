"""A tool server's result as the end of a call; handles results that are too large."""

import json
from typing import assert_never

from pydantic import JsonValue

from answerbus.call_outcome import CallError, CallOk, CallOutcome, InvalidArgs, ResultTooLarge
from answerbus.json_values import has_more_values
from answerbus.limits import (
    TOOL_EXCERPT_BYTES_MAX,
    TOOL_RESULT_BYTES_MAX,
    TOOL_RESULT_VALUES_MAX,
)
from answerbus.tool_result import ToolFailure, ToolOk, ToolOutcome
from answerbus.wire import clip
from services.text.digest import text_digest


def outcome_of_tool(outcome: ToolOutcome) -> CallOutcome:
    """A result that is too large is shown as its size, its beginning and its digest."""
    match outcome:
        case ToolOk(value=value):
            text = _json(value)
            is_long = len(text) > TOOL_RESULT_BYTES_MAX
            if is_long or has_more_values(text, TOOL_RESULT_VALUES_MAX):
                return too_large(value)
            return CallOk(value=value)
        case ToolFailure(problems=problems) if problems:
            return InvalidArgs(problems=problems)
        case ToolFailure():
            return CallError(code=outcome.code, message=outcome.message)
        case _:
            assert_never(outcome)


def json_bytes(value: JsonValue) -> int:
    return len(_json(value))


def _json(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def too_large(value: JsonValue) -> ResultTooLarge:
    """A result by its size, its beginning and its digest."""
    text = json.dumps(value, ensure_ascii=False)
    return ResultTooLarge(
        bytes=json_bytes(value),
        excerpt=clip(text, TOOL_EXCERPT_BYTES_MAX),
        digest=text_digest(text),
    )
