"""What could not be answered, with its closed causes, and what operators did about it."""

import re
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from answerbus import limits
from answerbus.budget import AccountState
from answerbus.failure import Failure, Problems
from answerbus.outcome import Origin
from answerbus.request import Prior, Request
from answerbus.wire import Count, Digest, Labels, Notes, Reason, Timestamp, Wire


class UndecodableCause(Wire):
    """The record is no valid request."""

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
    """The inline schema could harm the worker, or is no JSON Schema."""

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
    """The account has nothing left for another attempt."""

    kind: Literal["budget_exhausted"] = "budget_exhausted"
    which: Literal["attempts", "tokens", "micro_usd"]


class DeadlinePassed(Wire):
    """Append time plus `ttl_s` has passed."""

    kind: Literal["deadline_passed"] = "deadline_passed"


class InvalidAnswer(Wire):
    """No attempt gave a valid answer, and policy allows no other."""

    kind: Literal["invalid_answer"] = "invalid_answer"
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
    | Rejected
    | CrashedWorker,
    Field(discriminator="kind"),
]


class Raw(Wire):
    """The bytes of a record that is no request: the first 384 KiB, and the digest of all."""

    base64: str | None
    bytes: Count
    digest: Digest
    truncated: bool
    headers: Annotated[
        tuple[tuple[str, str | None], ...], Field(max_length=limits.RAW_HEADERS_MAX)
    ] = ()


class DeadLetter(Wire):
    """A request, or a record that is none, that ended without an answer."""

    kind: Literal["dead_letter"] = "dead_letter"
    dead_letter_id: str
    request_id: str | None
    workflow_id: str | None
    cause: Cause
    request: Request | None
    raw: Raw | None
    origin: Origin
    prior: Annotated[tuple[Prior, ...], Field(max_length=limits.PRIOR_ENTRIES_MAX)] = ()
    account: AccountState | None
    round: Count = 0
    notes: Notes = ()
    at: Timestamp
    labels: Labels = {}


def letter_id(request_id: str, topic: str) -> str:
    """The id of the letter of a request.

    Letters of records that are no request are called `<topic>-<partition>-<offset>.dead-letter`. A
    request may be called like such a place; its letter is then another one all the same.
    """
    is_like_a_place = re.fullmatch(rf"{re.escape(topic)}-\d+-\d+(\.request)*", request_id)
    return f"{request_id}{'.request' if is_like_a_place else ''}.dead-letter"


class PatchOperation(Wire):
    """One RFC 6902 operation on the request of a letter."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    value: JsonValue = None
    from_: str | None = Field(default=None, alias="from")


class Replayed(Wire):
    """An operator sent a letter's request again, as `request_id`."""

    kind: Literal["replayed"] = "replayed"
    dead_letter_id: str
    request_id: str
    round: Annotated[int, Field(ge=1)]
    by: Reason
    reason: Reason
    edit: tuple[PatchOperation, ...] = ()
    at: Timestamp


class Dismissed(Wire):
    """An operator put a letter aside for good."""

    kind: Literal["dismissed"] = "dismissed"
    dead_letter_id: str
    by: Reason
    reason: Reason
    at: Timestamp
