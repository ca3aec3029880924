"""The state of each published record so far, and how an event changes it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from answerbus.attempt import Attempt
from answerbus.dead_letter import DeadLetter
from answerbus.event import AnyOutcome
from answerbus.failure import Failure, Invalid, Throttled
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.step import Step
from infra.demo.cases import Case
from services.operators.records.decoded import DecodedRecord
from services.text.escaping import plain


@dataclass(frozen=True)
class Row:
    """One published record: its position, and what has become of it so far."""

    case: Case
    partition: int
    offset: int
    attempts: int = 0
    tokens: int = 0
    text: str = ""
    terminals: tuple[AnyOutcome, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to come; of a duplicate nothing ever is."""
        return bool(self.terminals) or self.case.is_duplicate


def fold(rows: Sequence[Row], seen: DecodedRecord) -> list[Row]:
    """The rows after an event; one that belongs to none of them changes nothing."""
    return [_after(row, seen) if belongs(seen, row) else row for row in rows]


def belongs(seen: DecodedRecord, row: Row) -> bool:
    """Whether an event is about a published record, by its position in a dead letter, or its id."""
    if isinstance(seen.event, DeadLetter):
        origin = seen.event.origin
        return (origin.partition, origin.offset) == (row.partition, row.offset)
    return seen.subject is not None and seen.subject == _answerable(row.case)


def outcome_text(terminal: AnyOutcome) -> str:
    """How a request ended, in a few words."""
    match terminal:
        case Result(answer={"kind": str(kind)}):
            return f"result: {plain(kind)}"
        case Result():
            return "result"
        case UnvalidatedResult():
            return "unvalidated result"
        case Refusal():
            return f"refusal by the {terminal.by}"
        case DeadLetter():
            return f"dead letter: {terminal.cause.kind}"
        case _:
            assert_never(terminal)


def retry_text(failure: Failure) -> str:
    """Why a request is tried again, in a few words."""
    match failure:
        case Invalid(problems=(first, *_)):
            return f"again: {plain(first.path)} {first.code}"
        case Throttled(retry_after_s=float(wait_s)):
            return f"again in {wait_s:g} s: throttled"
        case _:
            return f"again: {failure.kind}"


def step_text(step: Step) -> str:
    """Which tools a step has called."""
    return f"step {step.n}: {', '.join(plain(call.tool) for call in step.calls)}"


def seconds(terminal: AnyOutcome) -> float:
    """From the broker's append time to the outcome."""
    return (_ended(terminal) - _began(terminal)).total_seconds()


def _answerable(case: Case) -> str | None:
    return None if case.is_duplicate else case.request_id


def _after(row: Row, seen: DecodedRecord) -> Row:
    match seen.event:
        case Attempt() as attempt:
            usage = attempt.usage
            tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
            attempts = max(row.attempts, attempt.attempt)
            return replace(row, attempts=attempts, tokens=row.tokens + tokens)
        case RetryRequest() as retry if not row.terminals:
            return replace(row, text=retry_text(retry.failure))
        case Step() as step if not row.terminals:
            return replace(row, text=step_text(step))
        case (Result() | UnvalidatedResult() | Refusal() | DeadLetter()) as terminal:
            message = outcome_text(terminal)
            return replace(row, text=message, terminals=(*row.terminals, terminal))
        case _:
            return row


def _began(terminal: AnyOutcome) -> datetime:
    if isinstance(terminal, DeadLetter):
        return terminal.origin.timestamp
    return terminal.requested_at


def _ended(terminal: AnyOutcome) -> datetime:
    return terminal.at if isinstance(terminal, DeadLetter) else terminal.finished_at
