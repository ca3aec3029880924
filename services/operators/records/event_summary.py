"""The one partial parser of events: the members of each kind that lists and counts need; pure.

The fields are those of the wire; the rest of an event, which may be large, is skipped. Add here
any other member of an event that is needed. A new kind of event is a class here and a place in
`EventSummary`; mypy then names each match that must treat it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any

from msgspec import field
from msgspec.json import Decoder
from msgspec.structs import replace

from answerbus.limits import LABELS_MAX
from answerbus.schema_name import SchemaName
from services.operators.records.event_parts import (
    TEXT_CHARS_MAX,
    AccountStateSummary,
    AgentPart,
    AnsweredSchema,
    AskedSummary,
    CauseSummary,
    Count,
    EventPart,
    FailureDetailSummary,
    FailureSummary,
    ModelSummary,
    Moment,
    PriorSummary,
    ProblemSummary,
    Reason,
    ReplaySummary,
    RunPart,
    SpentSummary,
    Text,
    UsageSummary,
)
from services.operators.records.run_summary import AnyRunSummary
from services.operators.records.within_limits import amount


class RequestSummary(EventPart, frozen=True, gc=False, tag="request"):
    request_id: Text
    workflow_id: Text
    answer_schema: SchemaName
    profile: Text = "default"
    agent: AgentPart | None = None


class AttemptSummary(EventPart, frozen=True, gc=False, tag="attempt"):
    """An attempt; `model` is None where no provider was called."""

    request_id: Text
    workflow_id: Text
    attempt: Count
    outcome: Text
    failure: FailureSummary | None = None
    model: ModelSummary | None = None
    usage: UsageSummary = UsageSummary()
    charged: SpentSummary | None = None
    tools_micro_usd: Count = 0
    labels: Any = None  # any, since a forged attempt may hold anything there
    duration_ms: Count | None = None
    schema_digest: Text | None = None

    @property
    def is_call(self) -> bool:
        """Whether a call was made, as far as is known.

        One is released also after a call that the provider turned away, and that has a model.
        """
        return self.outcome != "released" or self.model is not None

    @property
    def charged_micro_usd(self) -> int:
        """The charges of its account, also for the tools before it.

        Attempts of earlier versions say only what was used.
        """
        charged = self.charged.micro_usd if self.charged else self.usage.micro_usd or 0
        return charged + amount(self.tools_micro_usd)

    @property
    def used_micro_usd(self) -> int:
        """The cost of provider and tools, as far as they reported it."""
        return (self.usage.micro_usd or 0) + amount(self.tools_micro_usd)

    @property
    def without_labels(self) -> "AttemptSummary":
        """The same for those who keep many: all else in it is bounded."""
        return replace(self, labels=None)

    @property
    def label_pairs(self) -> list[tuple[str, str]]:
        """The labels of its request that are texts."""
        found = self.labels if isinstance(self.labels, dict) else {}
        return [
            (name[:TEXT_CHARS_MAX], text[:TEXT_CHARS_MAX])
            for name, text in islice(found.items(), LABELS_MAX)
            if isinstance(name, str) and isinstance(text, str)
        ]


class RetrySummary(EventPart, frozen=True, gc=False, tag="retry_request"):
    """A request that is to be tried again."""

    request_id: Text
    workflow_id: Text
    request: AskedSummary
    next_attempt: Count
    failure: FailureSummary

    @property
    def answer_schema(self) -> SchemaName:
        """The schema that was asked for."""
        return self.request.answer_schema


class AnswerSummary(EventPart, frozen=True, gc=False):
    """An outcome with an answer. Little is required of it: the audit is to find forged ones."""

    request_id: Text
    workflow_id: Text | None = None
    answered_schema: AnsweredSchema | None = field(default=None, name="schema")
    attempt: Count | None = None
    model: ModelSummary | None = None
    account: AccountStateSummary | None = None
    replay: ReplaySummary | None = None
    run: RunPart | None = None
    requested_at: Any = None  # any, since a forged outcome may hold anything there
    finished_at: Any = None

    @property
    def answer_schema(self) -> SchemaName | None:
        """The schema that was asked for."""
        found = self.answered_schema
        return SchemaName(found.kind, found.name, found.version) if found else None

    @property
    def took_ms(self) -> float | None:
        """From the request to its answer; None where the times are none."""
        try:
            began, ended = map(datetime.fromisoformat, (self.requested_at, self.finished_at))
            return max(0.0, (ended - began).total_seconds() * 1000)
        except (TypeError, ValueError):
            return None


class ResultSummary(AnswerSummary, frozen=True, gc=False, tag="result"):
    """A valid answer."""


class UnvalidatedResultSummary(AnswerSummary, frozen=True, gc=False, tag="unvalidated_result"):
    """An answer that never became valid."""


class RefusalSummary(AnswerSummary, frozen=True, gc=False, tag="refusal"):
    """A request that was declined."""


class DeadLetterSummary(EventPart, frozen=True, gc=False, tag="dead_letter"):
    dead_letter_id: Text
    request_id: Text | None
    workflow_id: Text | None
    cause: CauseSummary
    request: AskedSummary | None
    account: AccountStateSummary | None
    at: Moment
    prior: Sequence[PriorSummary] = ()
    round: Count = 0
    run: RunPart | None = None
    labels: Mapping[Text, Text] = MappingProxyType({})

    @property
    def answer_schema(self) -> SchemaName | None:
        """The schema that was asked for, if it holds a request."""
        return self.request.answer_schema if self.request else None

    @property
    def last_failure(self) -> FailureDetailSummary | None:
        return self.cause.failure or (self.prior[-1].failure if self.prior else None)

    @property
    def failure(self) -> str | None:
        return self.last_failure.kind if self.last_failure else None

    @property
    def problems(self) -> Sequence[ProblemSummary]:
        """The problems of its last answer, or of the record itself."""
        return self.cause.problems or (self.last_failure.problems if self.last_failure else ())


class ReplayedSummary(EventPart, frozen=True, gc=False, tag="replayed"):
    """A dead letter that was replayed, as `request_id`."""

    dead_letter_id: Text
    request_id: Text
    round: Count
    by: Reason
    reason: Reason
    at: Moment
    workflow_id: Text | None = None


class DismissedSummary(EventPart, frozen=True, gc=False, tag="dismissed"):
    """A dismissal of a dead letter, or its undoing."""

    dead_letter_id: Text
    by: Reason
    reason: Reason
    at: Moment
    workflow_id: Text | None = None
    undone: bool = False


class PrivateSummary(EventPart, frozen=True, gc=False):
    """A worker's private record; no list of operators shows it, and few counts need it."""


class AccountSummary(PrivateSummary, frozen=True, gc=False, tag="account"):
    account_id: Text
    workflow_id: Text
    in_flight: tuple[Any, ...] = ()


class ClosedSummary(PrivateSummary, frozen=True, gc=False, tag="closed"):
    """A request or an invalid record that has had its outcome."""

    workflow_id: Text | None


class ClosedIdsSummary(PrivateSummary, frozen=True, gc=False, tag="closed_ids"):
    """Many of them at once; whose they are is packed."""

    chunk: Text


class LaneRecordSummary(PrivateSummary, frozen=True, gc=False, tag="lane"):
    """A lane as its worker wrote it."""

    worker: Text
    openings_without_progress: Count


class BudgetLeaseSummary(PrivateSummary, frozen=True, gc=False, tag="budget_lease"):
    """The lease of a lane on a label's budget."""

    budget: Text


class BudgetShareSummary(PrivateSummary, frozen=True, gc=False, tag="budget_share"):
    """The grant of a budget's home to a lane."""

    budget: Text


class BudgetNearlySpentSummary(EventPart, frozen=True, gc=False, tag="budget_nearly_spent"):
    """Four fifths of a label's budget are used."""

    budget: Text
    window: Text


class SkippedSummary(PrivateSummary, frozen=True, gc=False, tag="skipped"):
    """A private record that an operator has skipped."""

    offset: Count
    by: Reason
    reason: Reason
    at: Moment


EventSummary = (
    RequestSummary
    | AttemptSummary
    | RetrySummary
    | ResultSummary
    | UnvalidatedResultSummary
    | RefusalSummary
    | DeadLetterSummary
    | ReplayedSummary
    | DismissedSummary
    | AnyRunSummary
    | AccountSummary
    | ClosedSummary
    | ClosedIdsSummary
    | LaneRecordSummary
    | BudgetLeaseSummary
    | BudgetShareSummary
    | BudgetNearlySpentSummary
    | SkippedSummary
)

EVENT_SUMMARY = Decoder[EventSummary](EventSummary)
