"""What a tool server says of a call, as the end of that call."""

import json
from typing import assert_never

from answerbus.call_outcome import CallError, CallOk, CallOutcome, InvalidArgs, ResultTooLarge
from answerbus.limits import TOOL_EXCERPT_BYTES_MAX, TOOL_RESULT_BYTES_MAX
from answerbus.tool_result import ToolFailure, ToolOk, ToolOutcome
from answerbus.wire import clip


def outcome_of_tool(said: ToolOutcome) -> CallOutcome:
    """A result that is too large is told by its size and its beginning."""
    match said:
        case ToolOk(value=value):
            text = json.dumps(value, ensure_ascii=False)
            size = len(text.encode(errors="replace"))
            if size > TOOL_RESULT_BYTES_MAX:
                return ResultTooLarge(bytes=size, excerpt=clip(text, TOOL_EXCERPT_BYTES_MAX))
            return CallOk(value=value)
        case ToolFailure(problems=problems) if problems:
            return InvalidArgs(problems=problems)
        case ToolFailure():
            return CallError(code=said.code, message=said.message)
        case _:
            assert_never(said)
