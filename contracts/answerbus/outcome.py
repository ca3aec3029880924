"""The outcomes of a worker: Result, UnvalidatedResult, Refusal and RetryRequest."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Generic, Literal, NoReturn, assert_never

from pydantic import Field, JsonValue
from typing_extensions import TypeVar

from answerbus import limits
from answerbus.agent import ParentId, RunSummary
from answerbus.budget import AccountState, Usage
from answerbus.explain import problems_text
from answerbus.failure import Failure, Problems
from answerbus.html_table import html_table
from answerbus.outcome_error import OutcomeError
from answerbus.request import ContractId, InlineId, Prior, Replay, Request, SchemaId, TextId
from answerbus.wire import (
    OMIT_FALSY,
    OMIT_NONE,
    Count,
    Digest,
    Labels,
    Name,
    Notes,
    Position,
    Reason,
    RequestId,
    Timestamp,
    Wire,
    WorkflowId,
    one_line,
)

AnswerT = TypeVar("AnswerT", default=JsonValue)


class ModelUsed(Wire):
    """The model that answered: `model` as the provider named it, `dialect` that it was asked in.

    `asked` is the model of the profile, where the provider gave another name. Where the profile is
    a fallback, it was asked in place of `instead_of`, on the condition `because` of its settings.
    `service_tier` is the tier that served it, where the provider names one: its price counts.
    """

    profile: str
    provider: str
    model: str
    dialect: str
    asked: Annotated[str | None, OMIT_NONE] = None
    instead_of: Annotated[str | None, OMIT_NONE] = None
    because: Annotated[str | None, OMIT_NONE] = None
    service_tier: Annotated[str | None, OMIT_NONE] = None


class Origin(Wire):
    """Where the record stood that upstream wrote; `timestamp` is the broker's append time."""

    topic: str
    partition: Position
    offset: Position
    timestamp: Timestamp


class _Answered(Wire):
    """The members of every published answer."""

    _shown_first: ClassVar[str]

    kind: str
    event_id: str
    request_id: RequestId
    workflow_id: WorkflowId
    answered_schema: SchemaId = Field(alias="schema")
    attempt: Annotated[int, Field(ge=1)]
    model: ModelUsed
    usage: Usage
    account: AccountState
    notes: Notes = ()
    requested_at: Timestamp
    finished_at: Timestamp
    labels: Labels = {}
    replay: Replay | None = None
    body_digest: Annotated[Digest | None, OMIT_NONE] = None
    run: Annotated[RunSummary | None, OMIT_NONE] = None
    parent: Annotated[ParentId | None, OMIT_NONE] = None

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """What readers look for comes first."""
        return sorted(super().__repr_args__(), key=lambda shown: shown[0] != self._shown_first)

    def _repr_html_(self) -> str:
        """In a notebook: what is looked for, then where it comes from."""
        spent = self.account.spent
        cost = f"{spent.attempts:,} attempts, {spent.tokens:,} tokens, {spent.micro_usd:,} µ$"
        shown = {
            self._shown_first.replace("_", " "): str(self).removesuffix(f" {self._about()}"),
            "schema": f"{_label(self.answered_schema)}, attempt {self.attempt}",
            "model": self.model.model,
            "charged to the workflow": cost,
            "request": self.request_id,
        }
        return html_table(self.kind.replace("_", " "), shown.items())

    def _about(self) -> str:
        kind = self.kind.replace("_", " ")
        schema, attempt = _label(self.answered_schema), f"attempt {self.attempt}"
        about = f"{kind} of {self.request_id}: {schema}, {attempt}, {self.model.model}"
        return f"({one_line(about)})"


class Result(_Answered, Generic[AnswerT]):
    """A valid answer, without its audit-only fields."""

    _shown_first = "answer"
    kind: Literal["result"] = "result"
    answer: AnswerT

    def __str__(self) -> str:
        """The answer and where it comes from, on one line."""
        return f"{_shown(self.answer)} {self._about()}"

    def unwrap(self) -> AnswerT:
        """The answer; every other outcome raises an OutcomeError here."""
        return self.answer


class UnvalidatedResult(_Answered):
    """An answer that stayed invalid: a policy asked for it, or the reader's type refuses it."""

    _shown_first = "unvalidated_answer"
    kind: Literal["unvalidated_result"] = "unvalidated_result"
    unvalidated_answer: JsonValue
    problems: Problems

    def __str__(self) -> str:
        """The answer and what is wrong with it, on one line."""
        wrong = one_line(problems_text(self.problems))
        return f"{_shown(self.unvalidated_answer)} is not valid: {wrong} {self._about()}"

    def unwrap(self) -> NoReturn:
        """Raises UnvalidatedError."""
        raise UnvalidatedError(self)


class UnvalidatedError(OutcomeError):
    """The answer stayed invalid; `outcome.problems` says where and why."""

    def __init__(self, outcome: UnvalidatedResult) -> None:
        super().__init__(outcome)
        self.outcome: UnvalidatedResult = outcome

    def __str__(self) -> str:
        return (
            f"{self.outcome} Look at the problems: reword the instructions, or take what is there "
            "from `outcome.unvalidated_answer`."
        )


class Refusal(_Answered):
    """The model chose a refusing variant of its contract, or the provider declined."""

    _shown_first = "reason"
    kind: Literal["refusal"] = "refusal"
    by: Literal["model", "provider"]
    reason: Reason
    category: str | None = None
    answer: JsonValue = None

    def __str__(self) -> str:
        """The side that declined and the reason, on one line."""
        category = "" if self.category is None else f" ({self.category})"
        message = one_line(f"Declined by the {self.by}{category}: {self.reason}")
        return f"{message} {self._about()}"

    def unwrap(self) -> NoReturn:
        """Raises RefusalError."""
        raise RefusalError(self)


class RefusalError(OutcomeError):
    """The model or its provider declined."""

    def __init__(self, outcome: Refusal) -> None:
        super().__init__(outcome)
        self.outcome: Refusal = outcome

    def __str__(self) -> str:
        return (
            f"{self.outcome} Give the facts that are missing, or reword the instructions; a policy "
            "with `on_refusal: retry` tries again by itself."
        )


class ProfileFailures(Wire):
    """How many attempts that asked a profile failed, by kind."""

    profile: Name
    invalid: Count = 0
    truncated: Count = 0
    refused: Count = 0


class RetryRequest(Wire):
    """A request that is still being tried; the retries topic is the list of them.

    `used` is there for runs: what attempts since the last step have used. `failed` is there for
    profiles with fallbacks: by it the next profile is chosen.
    """

    kind: Literal["retry_request"] = "retry_request"
    event_id: str
    request_id: RequestId
    workflow_id: WorkflowId
    request: Request
    body_digest: Digest
    origin: Origin
    next_attempt: Annotated[int, Field(ge=1)]
    not_before: Timestamp
    deadline: Timestamp
    counted: bool
    waits: Count = 0
    failure: Failure
    prior: Annotated[tuple[Prior, ...], Field(max_length=limits.PRIOR_ENTRIES_MAX)] = ()
    account: AccountState
    used: Annotated[Usage | None, OMIT_NONE] = None
    failed: Annotated[
        tuple[ProfileFailures, ...], Field(max_length=limits.PROFILES_FAILED_MAX), OMIT_FALSY
    ] = ()
    notes: Notes = ()
    at: Timestamp


AnyResult = Result[Any]


def _shown(answer: object) -> str:
    return one_line(answer if isinstance(answer, str) else repr(answer))


def _label(schema: SchemaId) -> str:
    match schema:
        case ContractId():
            return f"{schema.name}.v{schema.version}"
        case InlineId():
            return schema.name
        case TextId():
            return schema.kind
        case _:
            assert_never(schema)
