"""Dead letters: closed causes why a request got no answer, and the actions of operators."""

import re
from typing import Annotated, Literal, NoReturn

from pydantic import Field, JsonValue

from answerbus import limits
from answerbus.agent import ParentId, RunSummary
from answerbus.budget import AccountState
from answerbus.cause import ANY_DIALECT as ANY_DIALECT
from answerbus.cause import AnswerTooLarge as AnswerTooLarge
from answerbus.cause import BudgetExhausted as BudgetExhausted
from answerbus.cause import Cancelled as Cancelled
from answerbus.cause import Cause as Cause
from answerbus.cause import ChildrenFailed as ChildrenFailed
from answerbus.cause import ConflictingId as ConflictingId
from answerbus.cause import CrashedWorker as CrashedWorker
from answerbus.cause import DeadlinePassed as DeadlinePassed
from answerbus.cause import HostileSchema as HostileSchema
from answerbus.cause import InvalidAnswer as InvalidAnswer
from answerbus.cause import MisroutedTwice as MisroutedTwice
from answerbus.cause import MissingTools as MissingTools
from answerbus.cause import Rejected as Rejected
from answerbus.cause import RepeatsItself as RepeatsItself
from answerbus.cause import RequestTooLarge as RequestTooLarge
from answerbus.cause import RunExhausted as RunExhausted
from answerbus.cause import UndecodableCause as UndecodableCause
from answerbus.cause import UnknownAgent as UnknownAgent
from answerbus.cause import UnknownParent as UnknownParent
from answerbus.cause import UnknownProfile as UnknownProfile
from answerbus.cause import UnknownSchema as UnknownSchema
from answerbus.cause import UnsupportedSchema as UnsupportedSchema
from answerbus.cause import UnverifiedSteps as UnverifiedSteps
from answerbus.cause import WaitedTooOften as WaitedTooOften
from answerbus.explain import died_text, remedy
from answerbus.html_table import html_table
from answerbus.outcome import Origin
from answerbus.outcome_error import OutcomeError
from answerbus.request import Prior, Request
from answerbus.wire import (
    OMIT_FALSY,
    OMIT_NONE,
    Count,
    Digest,
    Labels,
    Notes,
    Reason,
    Timestamp,
    Wire,
    one_line,
)


class Raw(Wire):
    """The bytes of a record that is not a request: the first 384 KiB, and the digest of all."""

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
    body_digest: Annotated[Digest | None, OMIT_NONE] = None
    run: Annotated[RunSummary | None, OMIT_NONE] = None
    parent: Annotated[ParentId | None, OMIT_NONE] = None

    def __str__(self) -> str:
        """Why there is no answer, on one line."""
        why = died_text(self.cause, [prior.failure for prior in self.prior])
        return one_line(f"{why} (dead letter {self.dead_letter_id})")

    def _repr_html_(self) -> str:
        """In a notebook: why, and what to do."""
        shown = {
            "why": died_text(self.cause, [prior.failure for prior in self.prior]),
            "what to do": remedy(self.cause, of_run=self.run is not None),
            "dead letter": self.dead_letter_id,
        }
        return html_table("dead letter", shown.items())

    def unwrap(self) -> NoReturn:
        """Raises DeadLetterError."""
        raise DeadLetterError(self)


class DeadLetterError(OutcomeError):
    """The request could not be answered."""

    def __init__(self, outcome: DeadLetter) -> None:
        super().__init__(outcome)
        self.outcome: DeadLetter = outcome

    def __str__(self) -> str:
        it = self.outcome
        return f"{it} {remedy(it.cause, of_run=it.run is not None)}"


def dead_letter_id(request_id: str, topic: str) -> str:
    """The id of the dead letter of a request.

    Those of records that are not requests are called `<topic>-<partition>-<offset>.dead-letter`. A
    request may be called like such a place; its dead letter is then another one all the same.
    """
    is_like_a_place = re.fullmatch(rf"{re.escape(topic)}-\d+-\d+(\.request)*", request_id)
    return f"{request_id}{'.request' if is_like_a_place else ''}.dead-letter"


class PatchOperation(Wire):
    """One RFC 6902 operation on the request of a dead letter."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    value: JsonValue = None
    from_: str | None = Field(default=None, alias="from")


class Replayed(Wire):
    """An operator sent a dead letter's request again, as `request_id` of `workflow_id`.

    Older records name no workflow.
    """

    kind: Literal["replayed"] = "replayed"
    dead_letter_id: str
    workflow_id: str | None = None
    request_id: str
    round: Annotated[int, Field(ge=1)]
    by: Reason
    reason: Reason
    edit: tuple[PatchOperation, ...] = ()
    at: Timestamp


class Dismissed(Wire):
    """An operator put a dead letter aside; `workflow_id` is the dead letter's, if it names one.

    Older records name no workflow. `undone` takes an earlier dismissal back: it is open again.
    The newest record of a dead letter counts; versions without the member let the first count.
    """

    kind: Literal["dismissed"] = "dismissed"
    dead_letter_id: str
    workflow_id: str | None = None
    undone: Annotated[bool, OMIT_FALSY] = False
    by: Reason
    reason: Reason
    at: Timestamp
