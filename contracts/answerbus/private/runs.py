"""The private records of open runs: enough for a lane to resume them after any crash."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny

from answerbus import limits
from answerbus.agent import Malformed, Version
from answerbus.budget import Budget, Spent, Usage
from answerbus.call_outcome import CallOutcome, Ran
from answerbus.continued_call import GivenInput, ToolQuestion
from answerbus.edited_args import EditedArgs
from answerbus.outcome import Origin
from answerbus.policy import PolicyVerdict, ToolPolicy
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.step import Number
from answerbus.tool_call import CallApproval, CallId, ToolsetName, ToolState
from answerbus.toolset_card import ToolCard, WrittenBy
from answerbus.wire import (
    OMIT_FALSY,
    OMIT_NONE,
    Count,
    Digest,
    Name,
    Notes,
    Reason,
    RequestId,
    Timestamp,
    Wire,
    WorkflowId,
)


def _is_own_code(written_by: object) -> bool:
    """Then records are as they were before there was such a member."""
    return written_by == "code"


def _is_default_questions(value: object) -> bool:
    return value == limits.TOOL_QUESTIONS_DEFAULT


# In the records of a version whose keys lacked the workflow it is None, and their keys stay so.
Scope = Annotated[WorkflowId | None, OMIT_NONE]


class ToolDefinition(Wire):
    """A tool of an agent: what its toolset announced, with what the operator rules.

    `policy` judges the arguments of its calls. Results of a `trusted` tool are not untrusted text.
    """

    toolset: ToolsetName
    card: ToolCard
    written_by: Annotated[WrittenBy, Field(exclude_if=_is_own_code)] = "code"
    policy: Annotated[ToolPolicy | None, OMIT_NONE] = None
    trusted: Annotated[bool, OMIT_FALSY] = False

    @property
    def name(self) -> str:
        """As agents and models call it."""
        return f"{self.toolset}.{self.card.name}"


class Delegation(Wire):
    """That an agent may ask children, by which agents and profiles, and how they share a budget.

    `equal`: each of the children of one step has its part. `pool`: the first that come are served.
    """

    depth_max: Annotated[int, Field(ge=1, le=limits.DEPTH_MAX)] = limits.DEPTH_DEFAULT
    children_max: Annotated[int, Field(ge=1, le=limits.CHILDREN_MAX)] = limits.CHILDREN_DEFAULT
    split: Literal["pool", "equal"] = "pool"
    agents: Annotated[tuple[Name, ...], Field(max_length=limits.DELEGATES_MAX)] = ()
    profiles: Annotated[tuple[Name, ...], Field(max_length=limits.DELEGATES_MAX)] = ()


class BestOf(Wire):
    """That an agent has `n` proposals made of its answer, and one of them chosen.

    `propose` names the contract of the proposals; without it they have the form that the request
    asks for. `select` is the contract of the choice. The `profiles` take turns for proposals, and
    `selector` chooses; without them it is the profile of the request. `criteria` say what is good.
    """

    n: Annotated[int, Field(ge=2, le=limits.PROPOSALS_MAX)] = 3
    propose: Name | None = None
    select: Literal["selection"] = "selection"
    profiles: Annotated[tuple[Name, ...], Field(max_length=limits.PROPOSALS_MAX)] = ()
    selector: Name | None = None
    criteria: str = ""

    @property
    def asked_profiles(self) -> tuple[Name, ...]:
        """The profiles that it names."""
        return (*self.profiles, self.selector) if self.selector else self.profiles

    @property
    def answering_profile(self) -> Name | None:
        """The profile of the last step; None for that of the request."""
        return self.selector

    @property
    def answer_contract(self) -> Name | None:
        """The one contract of its answers; None where a request may ask for any."""
        return self.propose


Composition = BestOf
"""The union of all that may decide the steps of a run in place of its model: each in a field of
its own in AgentDefinition, and in the settings."""


class AgentDefinition(Wire):
    """A named, versioned definition of an agent, frozen as data into each of its runs."""

    name: Name
    version: Version
    instructions: str
    tools: Annotated[tuple[ToolDefinition, ...], Field(max_length=limits.AGENT_TOOLS_MAX)] = ()
    steps_max: Annotated[int, Field(ge=1, le=limits.STEPS_MAX)] = limits.STEPS_DEFAULT
    calls_max: Annotated[int, Field(ge=1, le=limits.STEP_CALLS_MAX)] = limits.STEP_CALLS_MAX
    parallel_max: Annotated[int, Field(ge=1, le=limits.PARALLEL_CALLS_MAX)] = (
        limits.PARALLEL_CALLS_DEFAULT
    )
    transcript_bytes_max: Annotated[int, Field(ge=1)] = limits.TRANSCRIPT_BYTES_MAX
    budget: Budget = Budget(attempts=limits.RUN_ATTEMPTS_DEFAULT)
    reconcile_max: Annotated[
        int, Field(ge=1, le=limits.TOOL_QUESTIONS_MAX, exclude_if=_is_default_questions)
    ] = limits.TOOL_QUESTIONS_DEFAULT
    malformed: Malformed = "retry"
    remember_thoughts: bool = False
    show_thoughts: bool = False
    ask_person: Annotated[bool, OMIT_FALSY] = False
    delegate: Annotated[Delegation | None, OMIT_NONE] = None
    best_of: Annotated[BestOf | None, OMIT_NONE] = None

    @property
    def composition(self) -> Composition | None:
        """The composition that decides its steps; None where its model does."""
        return next((value for _, value in self if isinstance(value, Composition)), None)

    def without_composition(self) -> "AgentDefinition":
        """The same agent, whose model decides."""
        compositions = [name for name, value in self if isinstance(value, Composition)]
        return self.model_copy(update=dict.fromkeys(compositions))


class Link(Wire):
    """The place of an event in the chain of its run: the last one says where the chain is."""

    number: Number
    hash: Digest


class RunRecord(Wire):
    """An open run: its request, and the definition that was frozen into it."""

    kind: Literal["run"] = "run"
    v: Literal[1] = 1
    workflow_id: Scope = None
    request: Request
    body_digest: Digest
    origin: Origin
    notes: Notes = ()
    definition: AgentDefinition


class RunChildRecord(Wire):
    """A request that a run asked; where an agent works on it, a RunRecord takes its place."""

    kind: Literal["run_child"] = "run_child"
    v: Literal[1] = 1
    workflow_id: Scope = None
    request: Request
    body_digest: Digest
    origin: Origin


class AskedCall(Wire):
    """A tool call as a step asks for it; `outcome` where it ended with the step itself.

    `cap` is the part of the budget that its child has, where children have parts. `same_as` is the
    equal call of the step before whose result it has. `policy` is the verdict on its arguments,
    where its tool has a policy.
    """

    call_id: CallId
    tool: str
    args: dict[str, Any]
    args_digest: Digest
    needs_approval: bool = False
    outcome: SerializeAsAny[CallOutcome] | None = None
    cap: Annotated[Count | None, OMIT_NONE] = None
    same_as: Annotated[CallId | None, OMIT_NONE] = None
    policy: Annotated[PolicyVerdict | None, OMIT_NONE] = None

    @property
    def has_ended(self) -> bool:
        """Whether it ended with the step itself: it is not made."""
        return self.outcome is not None or self.same_as is not None


class RunStepRecord(Wire):
    """One step of an open run; `thoughts` only where a later prompt may show them.

    `floor` is what its next step may cost: what its children leave to it.
    `usage` is that of the attempt which was accepted, `retried` that of those before it, if any.
    `model` was asked for it, and `frame` is the digest of the system text and schema that it had:
    what the next prompt can cost is known from these and `usage`. `at` is when it was taken.
    """

    kind: Literal["run_step"] = "run_step"
    v: Literal[1] = 1
    workflow_id: Scope = None
    request_id: RequestId
    n: Number
    attempt: Number
    said: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    calls: tuple[AskedCall, ...]
    usage: Usage = Usage()
    floor: Annotated[Spent, Field(exclude_if=Spent().__eq__)] = Spent()
    retried: Annotated[Usage | None, OMIT_NONE] = None
    model: Annotated[str | None, OMIT_FALSY] = None
    frame: Annotated[Digest | None, OMIT_NONE] = None
    at: Annotated[Timestamp | None, OMIT_NONE] = None
    link: Link


class Reconciliation(Wire):
    """How far it is found out whether a call that was delivered had its effect.

    `asking`: its server is, and the answer has the `token` of that SHA-256. `asks_person`: a person
    is. `may_repeat`: it is to be delivered once more; `ran` says what is known of those before.
    """

    state: Literal["asking", "asks_person", "may_repeat"] = "asking"
    questions: Count = 0
    token: Digest | None = None
    ran: Ran = "unknown"


class RunCallRecord(Wire):
    """How a tool call stands that has left its first state; `tokens` are SHA-256 of those sent.

    `child` is the request that answers it; `children`, `spent` and `usage` are what that came to,
    or what the tool asked, with all below it. `questions` were asked about its fate, and
    `reconciliation` says how far that is known of its last delivery. `edited` are the arguments
    that it is made with, where a person changed those of its step. By `state` its server goes on
    with it; `asks` is the open one of `inputs_asked` questions of the tool to people, and `given`
    the answer to the last one, until its server says that it has used it.
    """

    kind: Literal["run_call"] = "run_call"
    v: Literal[1] = 1
    workflow_id: Scope = None
    request_id: RequestId
    n: Number
    place: Count
    approved: CallApproval | None = None
    edited: Annotated[EditedArgs | None, OMIT_NONE] = None
    deliveries: Count = 0
    tokens: tuple[Digest, ...] = ()
    called_at: Timestamp | None = None
    due_at: Timestamp | None = None
    outcome: SerializeAsAny[CallOutcome] | None = None
    notes: Notes = ()
    child: Annotated[RequestId | None, OMIT_NONE] = None
    children: Annotated[Count, OMIT_FALSY] = 0
    spent: Annotated[Count, OMIT_FALSY] = 0
    usage: Annotated[Usage | None, OMIT_NONE] = None
    questions: Annotated[Count, OMIT_FALSY] = 0
    reconciliation: Annotated[Reconciliation | None, OMIT_NONE] = None
    state: Annotated[ToolState | None, OMIT_NONE] = None
    inputs_asked: Annotated[Count, OMIT_FALSY] = 0
    asks: Annotated[ToolQuestion | None, OMIT_NONE] = None
    given: Annotated[GivenInput | None, OMIT_NONE] = None
    link: Link | None = None


class RunCancelRecord(Wire):
    """A request that was cancelled, and has not had its outcome or was not read yet.

    Without `request_id` it is each request of the workflow that was published before `at`.
    """

    kind: Literal["run_cancel"] = "run_cancel"
    v: Literal[1] = 1
    request_id: RequestId | None
    workflow_id: str
    by: Reason
    reason: Reason
    at: Timestamp


RunsRecord = RunRecord | RunChildRecord | RunStepRecord | RunCallRecord | RunCancelRecord


def runs_key(record: RunsRecord) -> str:
    """The record key: a run, its steps, and their calls, each with the workflow."""
    match record:
        case RunRecord() | RunChildRecord():
            return head_key(record)
        case RunStepRecord():
            return step_key(record.request_id, record.n, record.workflow_id)
        case RunCallRecord():
            return call_key(record.request_id, record.n, record.place, record.workflow_id)
        case RunCancelRecord():
            return cancel_key(record.request_id, record.workflow_id)


def head_key(record: RunRecord | RunChildRecord | RunStepRecord | RunCallRecord) -> str:
    """The key of the record with which the run of a record begins."""
    if isinstance(record, RunRecord | RunChildRecord):
        return run_key(record.request.request_id, record.workflow_id)
    return run_key(record.request_id, record.workflow_id)


def run_key(request_id: str, workflow_id: str | None, part: str = "") -> str:
    """Of a part of a run; no request id has a slash or an @."""
    if workflow_id is None:
        return f"{request_id}{part}"
    return RequestKey(workflow_id, request_id).record_key(part)


def step_key(request_id: str, n: int, workflow_id: str | None) -> str:
    """Of the step number `n`."""
    return run_key(request_id, workflow_id, f"/{n}")


def call_key(request_id: str, n: int, place: int, workflow_id: str | None) -> str:
    """Of the tool call at `place` of that step."""
    return run_key(request_id, workflow_id, f"/{n}/{place}")


def cancel_key(request_id: str | None, workflow_id: str) -> str:
    """Of the cancellation of a request, or of all of a workflow; no request id is empty."""
    return f"{request_id or ''}/cancel/{workflow_id}"
