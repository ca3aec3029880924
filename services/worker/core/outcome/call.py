"""A call that was made: the facts that decisions and the audit draw on."""

from dataclasses import dataclass
from typing import assert_never

from answerbus import failure
from answerbus.attempt import AttemptOutcome
from answerbus.budget import Usage
from answerbus.dead_letter import DeadLetter
from answerbus.outcome import ModelUsed, Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.wire import clip
from services.worker.core.attempt.attempt_context import AttemptContext
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered, Rejected, Reply, facts_of, failure_of
from services.worker.core.budget.account import Spend
from services.worker.core.budget.audit import CallTrace
from services.worker.core.outcome.decide import Checked, Decision, Wait
from services.worker.core.request.ticket import Ticket

MODEL_BYTES_MAX = 256  # of the name that a provider echoes


@dataclass(frozen=True, slots=True)
class Call:
    """What was asked, charged and answered; `checked` is there for an Answered reply."""

    ticket: Ticket
    plan: Plan
    prompt: Prompt
    spend: Spend
    reply: Reply
    checked: Checked | None
    answer_digest: str | None
    rationale: str | None
    duration_ms: int

    @property
    def model(self) -> ModelUsed:
        """Who answered: the name that the provider gave, else the one that was asked for."""
        profile = self.plan.profile
        named = facts_of(self.reply).model or profile.model
        return ModelUsed(
            profile=profile.name,
            provider=profile.provider,
            model=clip(named, MODEL_BYTES_MAX),
            dialect=self.plan.wire.dialect,
        )

    @property
    def usage(self) -> Usage:
        """What the provider reported, with its price where there is one."""
        usage, tariff = facts_of(self.reply).usage, self.plan.profile.tariff
        return tariff.priced(usage) if tariff else usage

    def attempt_context(self) -> AttemptContext:
        """The case to decide."""
        ticket = self.ticket
        return AttemptContext(
            request=ticket.request,
            body_digest=ticket.body_digest,
            origin=ticket.origin,
            deadline=ticket.deadline,
            prior=ticket.prior,
            waits=ticket.waits,
            notes=(*ticket.notes, *self._uncounted_money()),
            attempt=self.spend.attempt,
            plan=self.plan,
            model=self.model,
            usage=self.usage,
        )

    def _uncounted_money(self) -> tuple[str, ...]:
        if self.ticket.request.budget.micro_usd is None or self.plan.profile.tariff:
            return ()
        return (f"profile {self.plan.profile.name} has no price: money was not counted",)

    def trace(self, attempt: AttemptContext, worker: str) -> CallTrace:
        """What the audit keeps."""
        return CallTrace(
            worker=worker,
            model=self.model,
            schema_digest=self.plan.schema.id.digest,
            wire_schema_digest=self.plan.wire.digest,
            prompt_digest=self.prompt.digest,
            answer_digest=self.answer_digest,
            rationale=self.rationale,
            facts=facts_of(self.reply),
            usage=attempt.usage,
            duration_ms=self.duration_ms,
        )

    @property
    def failure(self) -> failure.Failure | None:
        """Why the call gave no result; None if it did, or if it was rejected for good."""
        match self.reply:
            case Answered():
                match self.checked:
                    case failure.Malformed() | failure.Invalid():
                        return self.checked
                    case _:
                        return None
            case Rejected():
                return failure.Unavailable(status=self.reply.status)
            case _:
                return failure_of(self.reply)


def attempt_outcome(decision: Decision) -> AttemptOutcome:
    """What the audit calls a decision."""
    match decision:
        case Result() | UnvalidatedResult() | Refusal() | DeadLetter():
            return decision.kind
        case RetryRequest():
            return "retry"
        case Wait():
            return "released"
        case _:
            assert_never(decision)
