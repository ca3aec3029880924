"""What is read of a record to list it: a few members, so that its bodies cost next to nothing."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, NotRequired

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Kind(TypedDict):
    """Any object that says its kind."""

    kind: str


class CauseHead(TypedDict):
    """Why a request died; `failure` is given by an invalid answer."""

    kind: str
    failure: NotRequired[Kind]


class PriorHead(TypedDict):
    """An earlier attempt."""

    failure: Kind


class SchemaHead(TypedDict):
    """Which answer was asked for."""

    kind: Literal["contract", "inline", "text"]
    name: NotRequired[str]
    version: NotRequired[int]


class FundsHead(TypedDict):
    """A budget, or what was spent of it."""

    attempts: NotRequired[int]
    tokens: NotRequired[int | None]
    micro_usd: NotRequired[int | None]


class AccountHead(TypedDict):
    """An account."""

    id: str
    spent: FundsHead


class ReplayHead(TypedDict):
    """Which dead letter an event answers."""

    dead_letter_id: str


class RequestHead(TypedDict):
    """The request of a dead letter."""

    answer_schema: SchemaHead
    profile: NotRequired[str]
    budget: NotRequired[FundsHead]


class DeadLetterHead(TypedDict):
    """A dead letter."""

    kind: Literal["dead_letter"]
    dead_letter_id: str
    request_id: str | None
    workflow_id: str | None
    cause: CauseHead
    request: RequestHead | None
    prior: NotRequired[list[PriorHead]]
    account: AccountHead | None
    round: NotRequired[int]
    at: AwareDatetime
    labels: NotRequired[dict[str, str]]


class ReplayedHead(TypedDict):
    """A dead letter that was replayed."""

    kind: Literal["replayed"]
    dead_letter_id: str
    request_id: str
    round: int
    by: str
    reason: str
    at: AwareDatetime


class DismissedHead(TypedDict):
    """A dead letter that was dismissed."""

    kind: Literal["dismissed"]
    dead_letter_id: str
    by: str
    reason: str
    at: AwareDatetime


class AnswerHead(TypedDict):
    """A result or a refusal."""

    kind: Literal["result", "unvalidated_result", "refusal"]
    request_id: str
    replay: NotRequired[ReplayHead | None]


class ModelHead(TypedDict):
    """Who was asked."""

    model: str


class AttemptHead(TypedDict):
    """An attempt."""

    kind: Literal["attempt"]
    request_id: str
    model: ModelHead | None


Head = DeadLetterHead | ReplayedHead | DismissedHead | AnswerHead | AttemptHead

_HEAD: TypeAdapter[Head] = TypeAdapter(Annotated[Head, Field(discriminator="kind")])


def head_of(value: bytes | None) -> Head | None:
    """What is needed of a record, or None if it is none of these events.

    Only these few members become Python objects, which is what makes a large dead letter cheap.
    """
    try:
        return _HEAD.validate_json(value or b"")
    except ValidationError:
        return None


def milliseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - _EPOCH) // _MILLISECOND
