"""How a tool ends: its value as JSON of bounded size, or a failure, its own or found; pure."""

from collections.abc import Sequence

from pydantic_core import to_json

from answerbus import json_text, limits
from answerbus.failure import Problem
from answerbus.json_values import has_more_values
from answerbus.limits import (
    TOOL_EXCERPT_BYTES_MAX,
    TOOL_RESULT_BYTES_MAX,
    TOOL_RESULT_VALUES_MAX,
)
from answerbus.tool_result import (
    CRASHED,
    INVALID_ARGS,
    NOT_APPROVED,
    NOT_JSON,
    TIMED_OUT,
    TOO_LARGE,
    UNKNOWN_TOOL,
    ToolFailure,
    ToolOk,
)
from answerbus.wire import clip

CODE_FALLBACK = "failed"
_CODE_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
# Of the excerpt that a failure's message can hold, the first sentence takes some.
_SENTENCE_BYTES = 128


class ToolError(Exception):
    """Raised by a tool that cannot do what it was asked: the model is shown code and message.

    `retryable` says that the same call may succeed later.
    """

    def __init__(self, code: str, message: str = "", *, retryable: bool = False) -> None:
        super().__init__(code, message)
        self.code, self.message, self.retryable = code, message, retryable

    @property
    def failure(self) -> ToolFailure:
        """The server's answer: the words of the tool, cut to fit the wire."""
        code = str(self.code)  # also that of a number
        fits = 0 < len(code) <= limits.NAME_CHARS_MAX and set(code) <= _CODE_CHARS
        return ToolFailure(
            code=code if fits else CODE_FALLBACK,
            message=clip(str(self.message), limits.REASON_BYTES_MAX),
            retryable=bool(self.retryable),
        )


def unknown_tool(name: str, known: Sequence[str]) -> ToolFailure:
    """The toolset has no tool of that name."""
    message = f"there is no tool {name}; there are: {', '.join(sorted(known))}"
    return ToolFailure(code=UNKNOWN_TOOL, message=clip(message, limits.REASON_BYTES_MAX))


def invalid_args(problems: Sequence[Problem]) -> ToolFailure:
    """The arguments do not fit the tool's schema; it did not run."""
    kept = tuple(problems[: limits.PROBLEMS_MAX])
    return ToolFailure(
        code=INVALID_ARGS, message="the arguments do not fit the tool", problems=kept
    )


def not_approved() -> ToolFailure:
    """A person must approve each call of this tool; this one was not approved, and did not run."""
    return ToolFailure(code=NOT_APPROVED, message="a person must approve each call of this tool")


def timed_out(after_s: float, *, retryable: bool) -> ToolFailure:
    """The tool gave no sign for so long; whether it had an effect is not known."""
    return ToolFailure(
        code=TIMED_OUT, message=f"no sign of the tool for {after_s:g} s", retryable=retryable
    )


def crashed(error: BaseException) -> ToolFailure:
    """The tool raised something else; its words stay in the server's log: they may hold secrets."""
    return ToolFailure(code=CRASHED, message=f"the tool raised {type(error).__name__}")


def not_json(reason: str) -> ToolFailure:
    """The tool returned what JSON cannot say."""
    message = f"the tool returned no JSON value: {reason}"
    return ToolFailure(code=NOT_JSON, message=clip(message, limits.REASON_BYTES_MAX))


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
