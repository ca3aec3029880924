"""One run as a tree: its steps, the tool calls of each, and the children of each call; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from answerbus.agent import ParentId
from answerbus.attempt import Attempt
from answerbus.budget import AccountState, Spent
from answerbus.call_outcome import CallOutcome
from answerbus.control import Approval, ApprovalRequested, Cancel, ControlApplied, InputRequested
from answerbus.edited_args import EditedArgs
from answerbus.event import AnyOutcome
from answerbus.policy import PolicyVerdict
from answerbus.step import CallState, Composed
from services.operators.records.ended_as import Ended, ended_as

RunState = Literal["working", "waiting", "awaits_approval", "awaits_input", "ended"]


Awaited = ApprovalRequested | InputRequested
"""What a person is asked for."""


@dataclass(frozen=True, slots=True)
class CallNode:
    """A tool call: its state, who or what ruled on it, and what was asked on its behalf.

    `micro_usd` is what the account was charged for the tool. `reconciled`: its result was lost, and
    its server found out afterwards that it had run. `edited_args` are those that a person put in
    the place of `args`, and `edited` is that with the verdict of the policy, once it has ended.
    `invalid` is the last that a person wrote and that did not fit.
    """

    call_id: str
    tool: str
    args: Mapping[str, Any]
    status: CallState
    outcome: CallOutcome | None = None
    took_ms: int | None = None
    micro_usd: int | None = None
    ended_at: datetime | None = None
    reconciled: bool = False
    edited: EditedArgs | None = None
    approval: ApprovalRequested | None = None
    question: InputRequested | None = None
    decision: ControlApplied | None = None
    invalid: ControlApplied | None = None
    policy: PolicyVerdict | None = None
    children: tuple["RunNode", ...] = ()

    @property
    def edited_args(self) -> Mapping[str, Any] | None:
        """See the class."""
        if self.edited is not None:
            return self.edited.args
        control = self.decision.control if self.decision else None
        return control.args if isinstance(control, Approval) else None

    @property
    def awaits(self) -> Awaited | None:
        """What a person is asked for by it now."""
        match self.status:
            case "awaits_approval":
                return self.approval
            case "awaits_input":
                return self.question
            case _:
                return None


@dataclass(frozen=True, slots=True)
class StepNode:
    """A step: what the model said, and which tools it called; `took_ms` is of its attempt.

    `spent` is what its attempt took, with those that failed before it. `composed` is there where no
    model decided what it is; of a selection `chosen` is the call whose answer was chosen.
    """

    n: int
    attempt: int
    at: datetime
    took_ms: int | None
    said: tuple[str, ...]
    calls: tuple[CallNode, ...]
    spent: Spent
    composed: Composed | None = None
    chosen: str | None = None

    @property
    def is_asked(self) -> bool:
        """Whether a model was asked for it: else it has no attempt."""
        return self.composed != "propose"


@dataclass(frozen=True, slots=True)
class RunNode:
    """A run, or a plain request that a run asked; `since` is when it came to its state.

    `own` is what it spent itself, `whole` with all below it. `parent` is there if it is below a
    call of this tree. `taken_over` counts the steps of an earlier run that a replay goes on from.
    `attempts` are those whose events are kept, also those that were no step.
    """

    request_id: str
    agent: str | None
    state: RunState
    began: datetime | None
    since: datetime | None
    own: Spent
    whole: Spent
    account: AccountState | None
    steps: tuple[StepNode, ...]
    parent: ParentId | None = None
    outcome: AnyOutcome | None = None
    cancel: Cancel | None = None
    taken_over: int = 0
    attempts: tuple[Attempt, ...] = ()

    @property
    def ended_as(self) -> Ended | None:
        """By its last attempt where its outcome is no longer kept; None while it is open."""
        last = self.attempts[-1] if self.attempts else None
        return self.outcome.kind if self.outcome is not None else ended_as(last)

    @property
    def over(self) -> datetime | None:
        """When it ended; None while it is open."""
        return self.since if self.state == "ended" else None

    @property
    def calls(self) -> Iterator[CallNode]:
        return (call for step in self.steps for call in step.calls)

    @property
    def awaiting(self) -> Iterator[Awaited]:
        """The open approvals and questions, in this run and those below it."""
        for call in self.calls:
            if call.awaits:
                yield call.awaits
            for child in call.children:
                yield from child.awaiting
