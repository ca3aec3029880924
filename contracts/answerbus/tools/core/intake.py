"""Decides on a record of a tool server's topic: run, answer, cancel or drop; pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from answerbus.continued_call import GivenInput, ToolContinue
from answerbus.envelope import Undecodable, decode
from answerbus.failure import Problem
from answerbus.limits import TOOL_ARGS_BYTES_MAX
from answerbus.reconcile import ToolReconcile
from answerbus.request_key import CallKey
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_result import ToolFailure
from answerbus.tools.core.failing import crashed, invalid_args, not_approved, unknown_tool
from answerbus.tools.core.reconciler import as_tool
from answerbus.tools.core.tool import InvalidArgs, Tool

DropReason = Literal[
    "undecodable",  # no event of ours
    "not_a_call",  # an event of another kind
    "foreign_toolset",  # a call of another toolset's tool
    "foreign_reply",  # an answer would go to a topic that is none of results
    "expired",  # its time was over before it could run
    "repeated",  # it runs already, and its one answer comes
    "conflicting",  # its id is known with other arguments
    "cancelled",
    "not_claimed",  # to be run at most once, and the claim could not be committed
    "unanswerable",  # there is no such place for its answer
    "asks",  # it goes on with another delivery, once a person has answered
    "timed_out",  # it may have had its effect: its reconciler finds that out
]


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing is done and nothing answered; it is counted."""

    reason: DropReason


@dataclass(frozen=True, slots=True)
class CancelCall:
    """A call is not wanted any more, nor the `state` that a server of its tool has kept for it."""

    call: CallKey
    tool: Tool | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class RefuseCall:
    """The call is answered with a failure, and its tool does not run.

    `error` is what the tool's own code raised when it looked at the arguments.
    """

    record: ToolCallRecord
    failure: ToolFailure
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Accept:
    """The call is to be run, or gone on with from `state`.

    Its arguments are read again then, as they may be kept for long.
    """

    record: ToolCallRecord
    tool: Tool
    args: object
    state: str | None = None
    given: GivenInput | None = None

    @property
    def begins(self) -> bool:
        """Whether it is to be run from its beginning."""
        return self.state is None

    @property
    def is_once(self) -> bool:
        """Whether it must not be done twice."""
        is_harmless = self.state is not None and self.given is None
        return self.tool.card.delivery == "at_most_once" and not is_harmless


@dataclass(frozen=True, slots=True)
class Question:
    """Somebody asks whether a call had its effect; without `reconciler` nothing can find out."""

    record: ToolReconcile
    reconciler: Tool | None
    args: object


@dataclass(frozen=True, slots=True)
class Offered:
    """The tools of a server, and the topic of its answers."""

    toolset: str
    tools: Mapping[str, Tool]
    results_topic: str


Taken = Accept | RefuseCall | CancelCall | Question | Drop


def take(value: bytes | None, offered: Offered, now: datetime) -> Taken:
    """Decides on one record; nothing in it can make this raise."""
    event = decode(value)
    match event:
        case Undecodable():
            return Drop("undecodable")
        case ToolCancel():
            if event.toolset != offered.toolset:
                return Drop("foreign_toolset")
            tool = offered.tools.get(event.tool) if event.tool is not None else None
            return CancelCall(CallKey.of(event), tool, event.state)
        case ToolCallRecord():
            return _of_call(event, offered, now)
        case ToolContinue(call=call, state=state, given=given):
            found = _of_call(call, offered, now)
            return replace(found, state=state, given=given) if isinstance(found, Accept) else found
        case ToolReconcile():
            return _of_question(event, offered, now)
        case _:
            return Drop("not_a_call")


def _not_to_answer(
    record: ToolCallRecord | ToolReconcile, offered: Offered, now: datetime
) -> Drop | None:
    if record.toolset != offered.toolset:
        return Drop("foreign_toolset")
    if record.reply.topic != offered.results_topic:
        # Else those who may write calls could have this server write to any topic that it may.
        return Drop("foreign_reply")
    if record.expires_at <= now:
        return Drop("expired")
    return None


def _of_question(record: ToolReconcile, offered: Offered, now: datetime) -> Taken:
    if dropped := _not_to_answer(record, offered, now):
        return dropped
    tool = offered.tools.get(record.tool)
    reconciler = as_tool(tool) if tool else None
    if reconciler is None:
        return Question(record, None, None)
    try:
        found = reconciler.read_args(record.args)
    except (Exception, SystemExit):  # of a validator that the tool's author has written
        return Question(record, None, None)
    if isinstance(found, InvalidArgs):
        return Question(record, None, None)
    return Question(record, reconciler, found.value)


def _of_call(record: ToolCallRecord, offered: Offered, now: datetime) -> Taken:
    if dropped := _not_to_answer(record, offered, now):
        return dropped
    tool = offered.tools.get(record.tool)
    if tool is None:
        return RefuseCall(record, unknown_tool(record.tool, tuple(offered.tools)))
    if tool.card.approval == "always" and record.approved is None:
        return RefuseCall(record, not_approved())
    if problem := _too_large(record):
        return RefuseCall(record, invalid_args((problem,)))
    try:
        found = tool.read_args(record.args)
    except (Exception, SystemExit) as error:  # of a validator that the tool's author has written
        return RefuseCall(record, crashed(error), error)
    if isinstance(found, InvalidArgs):
        return RefuseCall(record, invalid_args(found.problems))
    return Accept(record, tool, found.value)


def _too_large(record: ToolCallRecord) -> Problem | None:
    size = len(json.dumps(record.args, ensure_ascii=False, separators=(",", ":")).encode())
    if size <= TOOL_ARGS_BYTES_MAX:
        return None
    return Problem.of("", "too_large", f"at most {TOOL_ARGS_BYTES_MAX} bytes of JSON")
