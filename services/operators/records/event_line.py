"""One line about one record, for people; pure."""

from collections.abc import Mapping
from datetime import UTC, timedelta
from types import MappingProxyType
from typing import assert_never

from rich.text import Text

from answerbus.attempt import Attempt
from answerbus.budget import AccountState
from answerbus.compared import Compared
from answerbus.dead_letter import DeadLetter, Dismissed, Replayed
from answerbus.envelope import Undecodable
from answerbus.nearly_spent import BudgetNearlySpent
from answerbus.outcome import (
    AnyResult,
    ModelUsed,
    Refusal,
    Result,
    RetryRequest,
    UnvalidatedResult,
)
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.private.ledger import (
    KEY_BYTES,
    AccountRecord,
    ClosedIdsRecord,
    ClosedRecord,
    LaneRecord,
    Skipped,
)
from answerbus.request import Request
from answerbus.run_event import RunEvent
from answerbus.tool_event import ToolEvent
from services.operators.explain import died_text, failure_text, problem_text
from services.operators.records.decoded import DecodedRecord
from services.operators.records.money import dollars_of
from services.operators.records.run_text import run_text
from services.operators.records.stored import RetryEnded
from services.operators.records.tool_text import tool_text
from services.text.escaping import plain_line

STYLES: Mapping[str, str] = MappingProxyType(
    {
        "result": "green",
        "unvalidated_result": "yellow",
        "refusal": "magenta",
        "retry_request": "cyan",
        "retry_ended": "dim",
        "dead_letter": "red",
        "replayed": "blue",
        "dismissed": "blue",
        "undecodable": "bold red",
    }
)
_KIND_WIDTH = max(map(len, STYLES))
SECONDS_MAX = 120  # a longer wait is shown in minutes
_BAR_MAX = 12  # attempts that a bar can show


def line_of(record: DecodedRecord) -> Text:
    """Time, kind, workflow, request, schema and what matters of that kind."""
    return Text.assemble(
        (f"{record.at.astimezone(UTC):%H:%M:%S}Z ", "dim"),
        (record.kind.ljust(_KIND_WIDTH), STYLES.get(record.kind, "")),
        (f" {plain_line(record.workflow_id or '-')}", "bold"),
        (f" {plain_line(record.subject or _dead_letter_id(record) or '-')} ", "dim"),
        *((f"{plain_line(name.label)} ", "blue") for name in (record.schema_name,) if name),
        detail_of(record).replace("\n", " "),
    )


def _dead_letter_id(record: DecodedRecord) -> str | None:
    """By which an operator finds one without a request."""
    return record.event.dead_letter_id if isinstance(record.event, DeadLetter) else None


def result_text(result: AnyResult | UnvalidatedResult | Refusal) -> str:
    """How much work an answer was, and whose."""
    usage = result.usage
    parts = [f"attempt {result.attempt}", model_text(result.model)]
    if usage.input_tokens is not None and usage.output_tokens is not None:
        cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
        parts.append(f"{usage.input_tokens:,}{cached} + {usage.output_tokens:,} tokens")
    if usage.micro_usd is not None:
        saved = usage.cache_saved_micro_usd or 0
        by_caches = f" (caches saved {dollars_of(saved)})" if saved > 0 else ""
        parts.append(f"{dollars_of(usage.micro_usd)}{by_caches}")
    parts.append(f"{(result.finished_at - result.requested_at).total_seconds():.1f} s")
    return ", ".join(parts)


def model_text(model: ModelUsed) -> str:
    """Its name; of a fallback also for which profile it was asked, and why."""
    if model.instead_of is None:
        return plain_line(model.model)
    hop = f"profile {model.profile} in place of {model.instead_of}: {model.because}"
    return plain_line(f"{model.model} ({hop})")


def retry_text(retry: RetryRequest) -> str:
    """Which attempt is next, how long it waits, and why."""
    return f"{next_text(retry)}, since {failure_text(retry.failure)}"


def next_text(retry: RetryRequest) -> str:
    """Which attempt is next, and how long it waits, which is the same in all time zones."""
    wait_s = max(0.0, (retry.not_before - retry.at).total_seconds())
    wait = f"{wait_s:.1f} s" if wait_s < SECONDS_MAX else f"{wait_s / 60:.0f} min"
    return f"attempt {retry.next_attempt} in {wait}"


def detail_of(record: DecodedRecord) -> str:  # noqa: C901, PLR0912 - one arm for each event
    """The details that matter for that kind."""
    match record.event:
        case Undecodable() as found:
            return f"{record.topic.name}-{record.partition}@{record.offset} " + "; ".join(
                problem_text(problem) for problem in found.problems
            )
        case Result() as event:
            tag = event.answer.get("kind") if isinstance(event.answer, dict) else None
            message = f"{plain_line(tag)}, " if isinstance(tag, str) else ""
            return " ".join((message + result_text(event), *_bar(event.account)))
        case UnvalidatedResult() as event:
            message = f"{len(event.problems)} problems, {result_text(event)}"
            return " ".join((message, *_bar(event.account)))
        case Refusal() as event:
            took = event.finished_at - event.requested_at
            return f"by the {event.by}: {plain_line(event.reason)}{_so_far(took, event.account)}"
        case RetryRequest() as event:
            return f"{retry_text(event)}{_so_far(_since(event), event.account)}"
        case DeadLetter() as event:
            return f"{died_text(event)}{_so_far(_since(event), event.account)}"
        case Replayed() as event:
            return plain_line(f"as {event.request_id} by {event.by}: {event.reason}")
        case Dismissed() as event:
            undone = "undone " if event.undone else ""
            return plain_line(f"{undone}by {event.by}: {event.reason}")
        case Compared() as event:
            return _compared_text(event)
        case Skipped() as event:
            return plain_line(f"offset {event.offset} skipped by {event.by}: {event.reason}")
        case ClosedIdsRecord() as event:
            return f"{len(event.keys) // KEY_BYTES} of them, as chunk {event.chunk}"
        case BudgetLeaseRecord() as event:
            return plain_line(f"lane {event.lane}: {event.used.attempts} calls of {event.budget}")
        case BudgetShareRecord() as event:
            return plain_line(f"lane {event.lane}: given of {event.budget}")
        case BudgetNearlySpent() as event:
            return plain_line(f"{event.percent} % of {event.budget} in {event.window} are used")
        case Request() | Attempt() | AccountRecord() | ClosedRecord() | LaneRecord() | RetryEnded():
            return ""
        case event if isinstance(event, ToolEvent):
            return tool_text(event)
        case other if isinstance(other, RunEvent):
            return run_text(other)
        case other:
            assert_never(other)


def _compared_text(event: Compared) -> str:
    """How the answers compare; nothing of them."""
    how = {None: event.again.outcome, True: "equal", False: "another answer"}[event.equal]
    return plain_line(f"{event.comparison}: asked again of {event.again.profile}: {how}")


def _since(event: RetryRequest | DeadLetter) -> timedelta | None:
    """The time since its request was written."""
    return event.at - event.origin.timestamp if event.origin else None


def _so_far(took: timedelta | None, account: AccountState | None) -> str:
    """How long it has taken, and how much of its attempts is spent, as a bar."""
    parts = [] if took is None else [f"{took.total_seconds():.1f} s"]
    message = " ".join([*parts, *_bar(account)])
    return f" ({message})" if message else ""


def _bar(account: AccountState | None) -> tuple[str, ...]:
    """Attempts of an account that are spent; none where there is no account, or too many."""
    if account is None or not 0 < account.limit.attempts <= _BAR_MAX:
        return ()
    spent = min(account.spent.attempts, account.limit.attempts)
    return ("▰" * spent + "▱" * (account.limit.attempts - spent),)
