"""The audit record of a spend, chained by hash to the one before it on the same account."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from answerbus.attempt import Attempt, AttemptOutcome
from answerbus.budget import Usage
from answerbus.failure import Failure, Unknown
from answerbus.outcome import ModelUsed
from answerbus.wire import clip
from services.text.digest import canonical_digest
from services.worker.core.attempt.reply import CallFacts
from services.worker.core.budget.account import NOTHING, Account, Spend, spent_of
from services.worker.core.budget.ledger import Ledger, charge_of

FACT_BYTES_MAX = 256  # of what a provider calls its request or its stop reason
_UNHASHED = "sha256:" + "0" * 64


class CallTrace(NamedTuple):
    """The facts about one call, beside its outcome."""

    worker: str
    model: ModelUsed | None = None
    schema_digest: str | None = None
    wire_schema_digest: str | None = None
    prompt_digest: str | None = None
    answer_digest: str | None = None
    rationale: str | None = None
    facts: CallFacts = CallFacts()
    usage: Usage = Usage()
    labels: Mapping[str, str] = NOTHING
    duration_ms: int | None = None


def chain(
    account: Account,
    spend: Spend,
    outcome: AttemptOutcome,
    failure: Failure | None,
    trace: CallTrace,
    *,
    counted: bool,
) -> Attempt:
    """Make the Attempt of a settled spend, and let the account point at it.

    It says what tools cost since the one before, unless it was released: that may be no call.
    """
    tools_micro_usd = 0 if outcome == "released" else account.tools_micro_usd
    account.tools_micro_usd -= tools_micro_usd
    draft = Attempt(
        event_id=f"{spend.request_id}.attempt.{spend.attempt}",
        request_id=spend.request_id,
        workflow_id=account.workflow_id,
        account_id=account.id,
        attempt=spend.attempt,
        counted=counted,
        outcome=outcome,
        failure=failure,
        model=trace.model,
        schema_digest=trace.schema_digest,
        wire_schema_digest=trace.wire_schema_digest,
        prompt_digest=trace.prompt_digest,
        answer_digest=trace.answer_digest,
        provider_request_id=_short(trace.facts.request_id),
        stop_reason=_short(trace.facts.stop_reason),
        usage=trace.usage,
        charged=spent_of(charge_of(spend, trace.usage, counted=counted)),
        tools_micro_usd=tools_micro_usd,
        labels=dict(trace.labels),
        rationale=trace.rationale,
        started_at=spend.at,
        duration_ms=trace.duration_ms,
        worker=trace.worker,
        previous=account.last_attempt_hash,
        hash=_UNHASHED,
    )
    attempt = draft.model_copy(update={"hash": attempt_hash(draft)})
    account.last_attempt_hash = attempt.hash
    return attempt


def attempt_hash(attempt: Attempt) -> str:
    """SHA-256 over the RFC 8785 canonical JSON of the event without its `hash`."""
    body = attempt.model_dump(mode="json", exclude={"hash"})
    return canonical_digest(body)


def write_off(ledger: Ledger, spend: Spend, now: datetime, worker: str) -> Attempt:
    """Count a call whose worker ended: its result is unknown, so it is charged in full."""
    account = ledger.settle(spend, Usage(), now, counted=True)
    return chain(account, spend, "unknown", Unknown(), CallTrace(worker), counted=True)


def give_back(ledger: Ledger, spend: Spend, now: datetime, worker: str) -> Attempt:
    """Release a spend whose call never began."""
    account = ledger.settle(spend, Usage(), now, counted=False)
    return chain(account, spend, "released", None, CallTrace(worker), counted=False)


def _short(text: str | None) -> str | None:
    return None if text is None else clip(text, FACT_BYTES_MAX)
