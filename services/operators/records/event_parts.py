"""Parts of events, as far as lists and counts need them; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from answerbus.limits import ATTEMPTS_DEFAULT, REASON_BYTES_MAX
from answerbus.schema_name import SchemaName
from services.operators.records.within_limits import AMOUNT_MAX

TEXT_CHARS_MAX = 1_024  # of an id or a name: strangers write requests, and summaries are kept

Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_BYTES_MAX)]
Count = Annotated[int, Meta(ge=0)]
Moment = Annotated[datetime, Meta(tz=True)]


@dataclass(frozen=True, slots=True)
class AnsweredSchema(SchemaName):
    """A schema as an outcome names it: with its digest, by which attempts name it."""

    digest: Text | None = None


class Part(Struct, frozen=True, gc=False):  # none can be a part of itself
    """The parent of all summaries."""


class ProblemSummary(Part, frozen=True, gc=False):
    """One reason why a document fails its schema: what, and where."""

    path: Text
    code: Text


class FailureSummary(Part, frozen=True, gc=False):
    """Why an attempt gave no result; `status` is that of HTTP."""

    kind: Text
    status: int | None = None


class FailureDetailSummary(Part, frozen=True, gc=False):
    """The same in a dead letter, with what was wrong; `status` is that of HTTP.

    Paths of problems may hold words of an answer: lists show them to operators alone.
    """

    kind: Text
    problems: Sequence[ProblemSummary] = ()
    status: int | None = None


class CauseSummary(Part, frozen=True, gc=False):
    """Why a request ended as a dead letter; which of the others are given depends on the kind.

    `status` and `code` are a provider's, whose `code`, which the wire does not bound, is cut.
    """

    kind: Text
    failure: FailureDetailSummary | None = None
    problems: Sequence[ProblemSummary] = ()
    status: int | None = None
    code: str | None = None
    which: Text | None = None
    budget: Text | None = None

    def __post_init__(self) -> None:
        """See msgspec: called when the fields are there."""
        if self.code is not None and len(self.code) > TEXT_CHARS_MAX:
            force_setattr(self, "code", self.code[:TEXT_CHARS_MAX])


class PriorSummary(Part, frozen=True, gc=False):
    failure: FailureDetailSummary


class ModelSummary(Part, frozen=True, gc=False):
    """Profile and model; the names of models, which the wire does not bound, are cut.

    `asked` is the model of the profile, where its provider named another: a dated version of it.
    """

    profile: Text
    model: str
    asked: str | None = None

    def __post_init__(self) -> None:
        """See msgspec: called when the fields are there."""
        for name, model in (("model", self.model), ("asked", self.asked)):
            if model is not None and len(model) > TEXT_CHARS_MAX:
                force_setattr(self, name, model[:TEXT_CHARS_MAX])

    @property
    def name(self) -> str:
        """The one name of a model, answered or not."""
        return self.asked or self.model


def _cut_amounts(part: Part, amounts: Sequence[int | None]) -> None:
    """To what can be added up and shown; nearly always nothing is to be done."""
    for number, name in zip(amounts, part.__struct_fields__, strict=True):
        if number is not None and abs(number) > AMOUNT_MAX:
            force_setattr(part, name, AMOUNT_MAX if number > 0 else -AMOUNT_MAX)


class UsageSummary(Part, frozen=True, gc=False):
    """The cost of a call, as far as it was reported; a cache may cost more than it saves."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    micro_usd: Count | None = None
    cache_saved_micro_usd: int | None = None

    def __post_init__(self) -> None:
        saved = self.cache_saved_micro_usd
        _cut_amounts(self, (self.input_tokens, self.output_tokens, self.micro_usd, saved))

    @property
    def tokens(self) -> int:
        """Those of the prompt and of the answer."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)


class BudgetSummary(Part, frozen=True, gc=False):
    """The limits of an account; None means no limit."""

    attempts: Count = ATTEMPTS_DEFAULT
    tokens: Count | None = None
    micro_usd: Count | None = None

    def __post_init__(self) -> None:
        _cut_amounts(self, (self.attempts, self.tokens, self.micro_usd))


class SpentSummary(Part, frozen=True, gc=False):
    """The charges of an account."""

    attempts: Count = 0
    tokens: Count = 0
    micro_usd: Count = 0

    def __post_init__(self) -> None:
        _cut_amounts(self, (self.attempts, self.tokens, self.micro_usd))


class AccountStateSummary(Part, frozen=True, gc=False):
    """An account as an outcome shows it."""

    id: Text
    spent: SpentSummary


class ReplaySummary(Part, frozen=True, gc=False):
    """Which dead letter a request replays."""

    dead_letter_id: Text


class AgentPart(Part, frozen=True, gc=False):
    """Which agent works on a run; without a version it is the newest."""

    name: Text
    version: Count | None = None


class AskedSummary(Part, frozen=True, gc=False):
    """The request within a retry or a dead letter."""

    answer_schema: SchemaName
    profile: Text = "default"
    budget: BudgetSummary = BudgetSummary()
    replay: ReplaySummary | None = None
    agent: AgentPart | None = None


class CallPart(Part, frozen=True, gc=False):
    """A tool call of a step, as it stood then."""

    call_id: Text
    state: Text


class ToolOutcomePart(Part, frozen=True, gc=False):
    """How a tool call ended."""

    kind: Text = ""


class ControlPart(Part, frozen=True, gc=False):
    """A person's control; only approvals are about a call, and have a decision."""

    kind: Text = ""
    call_id: Text | None = None
    request_id: Text | None = None
    decision: Text = ""
    by: Reason = ""
    reason: Reason = ""
    at: Moment | None = None


class RunPart(Part, frozen=True, gc=False):
    """The totals of a run, as counted by its outcome."""

    steps: Count = 0
    tool_calls: Count = 0


class EventPart(Part, frozen=True, gc=False, tag_field="kind"):
    """The parent of all summaries of events, which go by their kind."""

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)
