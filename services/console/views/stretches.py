"""The time of a request, divided into stretches: waiting, calls, back-off; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from answerbus.attempt import Attempt
from answerbus.dead_letter import DeadLetter
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.request import Request
from services.console.views.units import duration
from services.operators.records.ended_as import Ended, ended_as
from services.operators.records.within_limits import moved
from services.operators.timeline.entry import TimelineEntry

MS = timedelta(milliseconds=1)

BarKind = Literal[
    "waiting", "backoff", "running",
    "result", "unvalidated_result", "refusal", "retry", "dead_letter", "unknown", "released",
    "step", "tools", "approval", "failed",
]  # fmt: skip
OUTCOMES = (Result, UnvalidatedResult, Refusal, DeadLetter)


@dataclass(frozen=True, slots=True)
class Stretch:
    """From when to when, and what for."""

    kind: BarKind
    begin: datetime
    end: datetime
    label: str


def stretches(own: Sequence[TimelineEntry], now: datetime) -> list[Stretch]:
    """Of one request, in their order: it waits, is called, waits for tools or for another try."""
    requested_at = next((entry.at for entry in own if isinstance(entry.seen.event, Request)), None)
    attempts = sorted(attempts_of(own), key=lambda attempt: (attempt.started_at, attempt.attempt))
    ended = next((entry.at for entry in own if isinstance(entry.seen.event, OUTCOMES)), None)
    found, last = list[Stretch](), requested_at
    for number, attempt in enumerate(attempts):
        if last is not None and attempt.started_at > last:
            found.append(_pause(last, attempt.started_at, attempts[:number]))
        end = moved(attempt.started_at, attempt.duration_ms or 0)
        found.append(Stretch(attempt.outcome, attempt.started_at, end, _call_words(attempt)))
        last = end
    running = next((entry for entry in own if entry.kind == "in_flight"), None)
    if running is not None and ended is None:
        if last is not None and running.at > last:
            found.append(_pause(last, running.at, attempts))
        found.append(Stretch("running", running.at, max(now, running.at), running.text))
    elif ended is None and last is not None and ended_by_attempt(own) is None:
        found.append(_pause(last, max(now, last), attempts))
    elif ended is not None and not attempts and last is not None and ended > last:
        found.append(_pause(last, ended, attempts))
    return found


def ended_by_attempt(own: Iterable[TimelineEntry]) -> Ended | None:
    """How its last attempt ended a request; None while it is open."""
    return ended_as(max(attempts_of(own), key=lambda attempt: attempt.attempt, default=None))


def attempts_of(own: Iterable[TimelineEntry]) -> list[Attempt]:
    """The attempts among what happened to a request."""
    return [entry.seen.event for entry in own if isinstance(entry.seen.event, Attempt)]


def _pause(begin: datetime, end: datetime, before: Sequence[Attempt]) -> Stretch:
    """Between two calls, by what the one before came to."""
    took = duration((end - begin) / MS)
    if not before:
        return Stretch("waiting", begin, end, f"waited {took} for its turn")
    if before[-1].outcome == "step":
        return Stretch("tools", begin, end, f"waited {took} for its tools")
    return Stretch("backoff", begin, end, f"back-off of {took}")


def _call_words(attempt: Attempt) -> str:
    took = "" if attempt.duration_ms is None else f" of {duration(attempt.duration_ms)}"
    became = attempt.outcome.replace("_", " ")
    why = f" ({attempt.failure.kind.replace('_', ' ')})" if attempt.failure else ""
    return f"call {attempt.attempt}{took}: {became}{why}"
