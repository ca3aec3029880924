"""Why a request ended without an answer: a closed union that `match` can exhaust."""

from typing import Annotated, Literal

from pydantic import Field

from answerbus.failure import Failure, Problems
from answerbus.wire import OMIT_NONE, Count, Reason, Wire


class UndecodableCause(Wire):
    """The record is an invalid request."""

    kind: Literal["undecodable"] = "undecodable"
    problems: Problems


class ConflictingId(Wire):
    """The request id is known with another body."""

    kind: Literal["conflicting_id"] = "conflicting_id"


class MisroutedTwice(Wire):
    """A forwarded copy arrived at a partition that does not own its workflow."""

    kind: Literal["misrouted_twice"] = "misrouted_twice"


class UnknownSchema(Wire):
    """No contract of that name and version is registered."""

    kind: Literal["unknown_schema"] = "unknown_schema"


ANY_DIALECT = "any"


class HostileSchema(Wire):
    """The inline schema could harm the worker, or is not a JSON Schema."""

    kind: Literal["hostile_schema"] = "hostile_schema"
    problems: Problems = ()


class UnsupportedSchema(Wire):
    """The profile's dialect cannot carry the schema; with `any`, the worker itself cannot."""

    kind: Literal["unsupported_schema"] = "unsupported_schema"
    dialect: str
    problems: Problems


class UnknownProfile(Wire):
    """No profile of that name is configured."""

    kind: Literal["unknown_profile"] = "unknown_profile"


class RequestTooLarge(Wire):
    """The record is larger than a request may be."""

    kind: Literal["request_too_large"] = "request_too_large"


class AnswerTooLarge(Wire):
    """The answer is larger than a result may be."""

    kind: Literal["answer_too_large"] = "answer_too_large"


class BudgetExhausted(Wire):
    """Nothing is left for another attempt in the account, or in the shared `budget` of a label."""

    kind: Literal["budget_exhausted"] = "budget_exhausted"
    which: Literal["attempts", "tokens", "micro_usd"]
    budget: Annotated[str | None, OMIT_NONE] = None


class DeadlinePassed(Wire):
    """Append time plus `ttl_s` has passed."""

    kind: Literal["deadline_passed"] = "deadline_passed"


class InvalidAnswer(Wire):
    """No attempt gave a valid answer, and policy allows no other."""

    kind: Literal["invalid_answer"] = "invalid_answer"
    failure: Failure


class RepeatsItself(Wire):
    """The model gave the same answer `times` times, and budget was left; `failure` is its fault."""

    kind: Literal["repeats_itself"] = "repeats_itself"
    times: Count
    failure: Failure


class WaitedTooOften(Wire):
    """The provider could not do the work so often that waiting ended; `failure` is the last one."""

    kind: Literal["waited_too_often"] = "waited_too_often"
    waits: Count
    failure: Failure


class Rejected(Wire):
    """The provider refused this very request, before working on it."""

    kind: Literal["rejected"] = "rejected"
    status: int | None
    code: str | None


class CrashedWorker(Wire):
    """Workers ended this many times while they were at this request, at last at nothing else."""

    kind: Literal["crashed_worker"] = "crashed_worker"
    openings: Count


class UnknownAgent(Wire):
    """The workers have no agent of that name and version."""

    kind: Literal["unknown_agent"] = "unknown_agent"


class UnknownParent(Wire):
    """No open run has asked for such a child."""

    kind: Literal["unknown_parent"] = "unknown_parent"


class UnverifiedSteps(Wire):
    """The request goes on from steps that no operator has sent."""

    kind: Literal["unverified_steps"] = "unverified_steps"


class MissingTools(Wire):
    """No tool server has announced these tools of the agent."""

    kind: Literal["missing_tools"] = "missing_tools"
    tools: tuple[str, ...]


class RunExhausted(Wire):
    """A limit of the run was reached before its end."""

    kind: Literal["run_exhausted"] = "run_exhausted"
    which: Literal["steps", "transcript"]


class ChildrenFailed(Wire):
    """No child that a composition needs gave an answer; `ended` says of each how it ended.

    For a dead letter that is the kind of its cause.
    """

    kind: Literal["children_failed"] = "children_failed"
    ended: tuple[str, ...]


class Cancelled(Wire):
    """A person has cancelled the request."""

    kind: Literal["cancelled"] = "cancelled"
    by: Reason
    reason: Reason


Cause = Annotated[
    UndecodableCause
    | ConflictingId
    | MisroutedTwice
    | UnknownSchema
    | HostileSchema
    | UnsupportedSchema
    | UnknownProfile
    | RequestTooLarge
    | AnswerTooLarge
    | BudgetExhausted
    | DeadlinePassed
    | InvalidAnswer
    | RepeatsItself
    | WaitedTooOften
    | Rejected
    | CrashedWorker
    | UnknownAgent
    | UnknownParent
    | UnverifiedSteps
    | MissingTools
    | RunExhausted
    | ChildrenFailed
    | Cancelled,
    Field(discriminator="kind"),
]
