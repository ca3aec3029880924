"""A tool's return value as its outcome: a JSON value of bounded size, or a typed failure; pure."""

from pydantic_core import to_json

from answerbus import json_text
from answerbus.json_values import has_more_values
from answerbus.limits import (
    TOOL_EXCERPT_BYTES_MAX,
    TOOL_RESULT_BYTES_MAX,
    TOOL_RESULT_VALUES_MAX,
)
from answerbus.tool_result import TOO_LARGE, ToolFailure, ToolOk
from answerbus.tools.core.failing import not_json
from answerbus.wire import clip

# Of the excerpt that a failure's message can hold, the first sentence takes some.
_SENTENCE_BYTES = 128


def outcome_of(value: object) -> ToolOk | ToolFailure:
    """The value as JSON; models, dataclasses, dates and the like become what pydantic makes."""
    try:
        text = to_json(value, by_alias=True, inf_nan_mode="constants")
    except Exception as error:  # pydantic raises many kinds, and a model's own code may run here
        return not_json(type(error).__name__)
    is_long = len(text) > TOOL_RESULT_BYTES_MAX
    if is_long or has_more_values(text, TOOL_RESULT_VALUES_MAX):
        return too_large(text)
    match json_text.parse(text):
        case json_text.Parsed(value=found):
            return ToolOk(value=found)
        case json_text.NotJson(reason=reason):
            return not_json(reason)


def too_large(text: bytes) -> ToolFailure:
    """The value is more than a result may be; the model is shown how it begins."""
    excerpt = text[:TOOL_EXCERPT_BYTES_MAX].decode(errors="replace")
    shown = clip(excerpt, TOOL_EXCERPT_BYTES_MAX - _SENTENCE_BYTES)
    is_long = len(text) > TOOL_RESULT_BYTES_MAX
    limit = (
        f"of at most {TOOL_RESULT_BYTES_MAX}"
        if is_long
        else f"with more than {TOOL_RESULT_VALUES_MAX:,} JSON values"
    )
    return ToolFailure(code=TOO_LARGE, message=f"{len(text)} bytes, {limit}; it begins: {shown}")
