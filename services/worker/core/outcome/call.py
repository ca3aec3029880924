"""A finished call: the case to decide, and its part of the audit."""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from pydantic import JsonValue
from pydantic_core import to_json

from answerbus import failure
from answerbus.budget import Usage
from answerbus.failure import Failure
from answerbus.json_text import Parsed
from answerbus.json_values import has_more_values
from answerbus.limits import ANSWER_VALUES_MAX, REASON_BYTES_MAX
from answerbus.outcome import ModelUsed
from answerbus.request import Prior, Request
from answerbus.wire import clip
from services.text.digest import text_digest
from services.worker.core.attempt import fallback, history
from services.worker.core.attempt.check import Checked, check_as_text
from services.worker.core.attempt.fallback import Failed
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import (
    Answered,
    Rejected,
    Reply,
    facts_of,
    is_counted,
)
from services.worker.core.budget.account import Spend
from services.worker.core.budget.audit import CallTrace
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.made_child import Children
from services.worker.core.schema.resolved import Accepted, AcceptedStep

MODEL_BYTES_MAX = 256  # of the name that a provider echoes
MODELS_MAX = 1_024  # that are kept; a worker asks a few

_model_used = lru_cache(MODELS_MAX)(ModelUsed)


@dataclass(frozen=True)
class Call:
    """The question, the charge and the reply; `checked` is there for an Answered reply."""

    lane_request: LaneRequest
    plan: Plan
    prompt: Prompt
    spend: Spend
    reply: Reply
    checked: Checked | None
    duration_ms: int
    children: Children = field(default_factory=dict)  # of a step

    @property
    def request(self) -> Request:
        return self.lane_request.request

    @property
    def is_counted(self) -> bool:
        """Whether the model may have worked on it."""
        return is_counted(self.reply)

    @property
    def asked_too_much(self) -> bool:
        """Whether it was refused with an output limit that grew beyond the profile's.

        That may be beyond the model's as well: then it is the limit that is refused, and not the
        request. A new task, or a worker that starts, finds it out again.
        """
        has_grown = self.prompt.max_output_tokens > self.plan.profile.max_output_tokens
        return has_grown and isinstance(self.reply, Rejected) and self.reply.scope == "request"

    @cached_property
    def model(self) -> ModelUsed:
        """The model that answered: the name that the provider gave, else the one asked for."""
        profile = self.plan.profile
        named = clip(facts_of(self.reply).model or profile.model, MODEL_BYTES_MAX)
        asked = clip(profile.model, MODEL_BYTES_MAX)
        hop = self.plan.hops[-1] if self.plan.hops else None
        return _model_used(
            profile=profile.name,
            provider=profile.provider,
            model=named,
            dialect=self.plan.wire.dialect,
            asked=None if asked == named else asked,
            instead_of=hop.instead_of if hop else None,
            because=str(hop.because) if hop else None,
            service_tier=facts_of(self.reply).service_tier,
        )

    @property
    def usage(self) -> Usage:
        """The reported usage, with its price where there is one."""
        return self._priced[0]

    @cached_property
    def _priced(self) -> tuple[Usage, tuple[str, ...]]:
        """The usage, and what is assumed in its price."""
        facts, tariff = facts_of(self.reply), self.plan.profile.tariff
        return tariff.priced(facts.usage, facts.service_tier) if tariff else (facts.usage, ())

    @property
    def answer_digest(self) -> str | None:
        """The digest of what the model wrote, if anything came."""
        return text_digest(self.reply.content) if isinstance(self.reply, Answered) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for readers of its outcome, about the request and its cost."""
        notes = (*self.lane_request.all_notes, *self._priced[1])
        if self.request.budget.micro_usd is None or self.plan.profile.tariff:
            return notes
        unpriced = f"profile {self.plan.profile.name} has no price: money was not counted"
        return (*notes, unpriced)

    def trace(self, worker: str) -> CallTrace:
        reply, checked = self.reply, self.checked
        return CallTrace(
            worker=worker,
            model=self.model,
            schema_digest=self.plan.schema.id.digest,
            wire_schema_digest=self.plan.wire.digest,
            prompt_digest=self.prompt.digest,
            answer_digest=self.answer_digest,
            rationale=checked.rationale if isinstance(checked, Accepted | AcceptedStep) else None,
            facts=facts_of(reply),
            usage=self.usage,
            duration_ms=self.duration_ms,
            labels=self.request.labels,
        )

    @property
    def failure(self) -> Failure | None:
        """Why the call gave no result; None if it did, or if it was rejected for good."""
        match self.reply:
            case Answered():
                match self.checked:
                    case failure.Malformed() | failure.Invalid():
                        return self.checked
                    case _:
                        return None
            case _:
                return self.reply.failure

    @property
    def refused_by_model(self) -> Failure | None:
        """Set where it chose the refusing variant of its contract."""
        declined = self.checked.declined if isinstance(self.checked, Accepted) else None
        if declined is None:
            return None
        return failure.Refused(reason=clip(declined.reason, REASON_BYTES_MAX))

    def prior_after(self, failed: Failure, answer: JsonValue = None) -> tuple[Prior, ...]:
        """The earlier attempts, and this one."""
        prior, attempt = self.lane_request.progress.prior, self.spend.attempt
        return history.with_failure(prior, attempt, failed, answer, self.answer_digest)

    def equal_answers(self, last: Prior) -> int:
        """How often its profile gave the last answer: another one may have given it before."""
        if not self.plan.hops:
            return last.times
        failed = self.failed_after(last.failure)
        return min(last.times, fallback.failures_of(failed, self.plan.profile.name, "invalid"))

    def failed_after(self, failed: Failure) -> Failed:
        """How attempts failed, with this one, where the next may ask another profile."""
        known, plan = self.lane_request.progress.failed, self.plan
        if not plan.may_change_profile:
            return known
        return fallback.with_failure(known, plan.profile.name, failed)

    @property
    def kept_answer(self) -> JsonValue:
        """The model's answer, as far as the next attempt may see it."""
        return history.kept_answer(self.plan, self._content)

    @property
    def answer_as_it_is(self) -> Parsed | None:
        """An invalid answer without audit-only fields, if only parts of it are wrong.

        None for one of more values than an answer may have: no reader would take its event.
        """
        found = history.readable(self.plan, self._content)
        if found is None or not history.has_form(found.value, self.failure):
            return None
        return None if has_more_values(to_json(found.value), ANSWER_VALUES_MAX) else found

    @property
    def answer_as_text(self) -> Checked | None:
        """The model's answer as the text variant of its contract, if that has one."""
        return check_as_text(self._content, self.plan.schema)

    @property
    def _content(self) -> str:
        if not isinstance(self.reply, Answered):
            raise TypeError("the provider gave no answer")
        return self.reply.content
