"""The outcome of a tool call: a closed union, and its text for the model."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from answerbus import limits
from answerbus.failure import Problems
from answerbus.tool_call import CallId
from answerbus.wire import IN_64_BITS, OMIT_NONE, Count, Digest, Reason, Wire, at_most_bytes

Ran = Literal["no", "unknown"]
Code = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS_MAX)]


def _is_no(value: object) -> bool:
    return value == "no"


class CallOk(Wire):
    """The tool gave a value.

    `same_as` is an equal call of the step before, whose result it is: this one was not made.
    """

    kind: Literal["ok"] = "ok"
    value: JsonValue
    same_as: Annotated[CallId | None, OMIT_NONE] = None


class CallError(Wire):
    """The tool says that it could not do it."""

    kind: Literal["error"] = "error"
    code: Code
    message: Reason


class UnknownTool(Wire):
    """The agent has no such tool; `known` are those that it has."""

    kind: Literal["unknown_tool"] = "unknown_tool"
    known: tuple[str, ...]


class InvalidArgs(Wire):
    """The arguments break the schema of the tool; nothing was called."""

    kind: Literal["invalid_args"] = "invalid_args"
    problems: Problems


class Denied(Wire):
    """A person did not approve the call."""

    kind: Literal["denied"] = "denied"
    by: Reason
    reason: Reason


class ApprovalExpired(Wire):
    """No person approved the call in time, or answered its question.

    `ran` is `unknown` where the tool itself had asked, and so had begun.
    """

    kind: Literal["expired"] = "expired"
    ran: Annotated[Ran, Field(exclude_if=_is_no)] = "no"


class CallTimedOut(Wire):
    """No result came in time; `ran` says whether the tool may have run all the same."""

    kind: Literal["timed_out"] = "timed_out"
    after_s: Annotated[float, Field(ge=0)]
    ran: Ran


class ResultTooLarge(Wire):
    """The result has more bytes than a run may take; `excerpt` is its beginning.

    `digest` is SHA-256 of it as JSON. Workers of earlier versions gave it for children alone.
    """

    kind: Literal["too_large"] = "too_large"
    bytes: Annotated[Count, IN_64_BITS]
    excerpt: Annotated[str, at_most_bytes(limits.TOOL_EXCERPT_BYTES_MAX)]
    digest: Annotated[Digest | None, OMIT_NONE] = None


class NotRun(Wire):
    """A limit of the run left no room for the call; nothing was called."""

    kind: Literal["not_run"] = "not_run"
    which: Literal["parallel", "calls", "repeats", "depth", "children", "budget"]


class ChildDeclined(Wire):
    """The child ended as a refusal."""

    kind: Literal["declined"] = "declined"
    reason: Reason


class ChildDeadLetter(Wire):
    """The child ended as a dead letter; `cause` is the kind of its cause."""

    kind: Literal["dead_letter"] = "dead_letter"
    cause: str


class CallCancelled(Wire):
    """The run was cancelled while the call was open."""

    kind: Literal["cancelled"] = "cancelled"
    by: Reason
    reason: Reason


CallOutcome = Annotated[
    CallOk
    | CallError
    | UnknownTool
    | InvalidArgs
    | Denied
    | ApprovalExpired
    | CallTimedOut
    | ResultTooLarge
    | NotRun
    | ChildDeclined
    | ChildDeadLetter
    | CallCancelled,
    Field(discriminator="kind"),
]
