"""Outcomes, calls and spend by the minute, by contract and by profile, as a fold; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from services.operators.records.event_summary import (
    AnswerSummary,
    AttemptSummary,
    DeadLetterSummary,
    DismissedSummary,
    PrivateSummary,
    RefusalSummary,
    ReplayedSummary,
    RequestSummary,
    ResultSummary,
    RetrySummary,
)
from services.operators.records.stored import RetryEnded
from services.operators.records.summary import RecordSummary, UndecodableRecord

MINUTE_MS = 60_000
KEPT_MINUTES = 24 * 60
NAMES_MAX = 200  # pairs of contract and model, and profiles, that are told apart
OTHERS = "(others)"
NONE = "–"
OUTCOMES = ("result", "unvalidated_result", "refusal", "dead_letter")
UNHEALTHY_MINUTES = 10
UNHEALTHY_CALLS_MIN = 3
_AWAY = frozenset({"unavailable", "timed_out"})
_ANSWERED = {"result", "unvalidated_result", "refusal"}
_READ_BY_THE_MODEL = {"malformed", "invalid", "truncated", "refused"}


@dataclass(slots=True)
class Rate:
    """Terminals of one contract and model: how many there were, and how many took repairs."""

    terminals: int = 0
    refusals: int = 0
    results: int = 0
    after_retries: int = 0

    def add(self, other: "Rate") -> None:
        """Count these as well."""
        self.terminals += other.terminals
        self.refusals += other.refusals
        self.results += other.results
        self.after_retries += other.after_retries


@dataclass(slots=True)
class Calls:
    """Calls of one profile: all, and those that the model answered."""

    made: int = 0
    answered: int = 0


@dataclass(slots=True)
class Minute:
    """What happened in one minute, by Kafka's time of the records."""

    outcomes: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    calls: int = 0
    tokens: int = 0
    micro_usd: int = 0
    rates: dict[tuple[str, str], Rate] = field(default_factory=dict)
    profiles: dict[str, Calls] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """The last minutes, added up in equal steps for a plot, and as a whole."""

    minutes: int
    step_minutes: int
    outcomes: Mapping[str, tuple[int, ...]]
    micro_usd: tuple[int, ...]
    total: Minute


class Board:
    """Keeps KEPT_MINUTES; what is older is not counted."""

    def __init__(self) -> None:
        self._minutes: dict[int, Minute] = {}
        self._newest = 0
        self._rates: set[tuple[str, str]] = set()
        self._profiles: set[str] = set()
        self._waiting: dict[str, tuple[str, str]] = {}
        self._missed: dict[str, tuple[int, int]] = {}  # calls in a row without a word, and when

    def take(self, record: RecordSummary) -> None:
        """Count one record."""
        match record.event:
            case (AnswerSummary() | DeadLetterSummary()) as event:
                self._terminal(event, record.at_ms)
            case AttemptSummary() as event:
                self._attempt(event, record.at_ms)
            case RetrySummary() as event:
                if minute := self._minute(record.at_ms):
                    minute.retries += 1
                self._waiting[event.request_id] = (event.request.profile, event.failure.kind)
            case RetryEnded() as event:
                self._waiting.pop(event.request_id, None)
            case RequestSummary() | ReplayedSummary() | DismissedSummary() | UndecodableRecord():
                pass
            case PrivateSummary():
                pass
            case other:
                assert_never(other)

    @property
    def waiting(self) -> Counter[tuple[str, str]]:
        """Requests that are still being retried, by profile and failure."""
        return Counter(self._waiting.values())

    def window(self, now_ms: int, minutes: int, steps: int) -> Window:
        """The `minutes` up to now in `steps` equal steps; `steps` divides `minutes`."""
        step = minutes // steps
        first = now_ms // MINUTE_MS - minutes + 1
        groups = [
            [
                self._minutes[n]
                for n in range(first + i * step, first + (i + 1) * step)
                if n in self._minutes
            ]
            for i in range(steps)
        ]
        return Window(
            minutes,
            step,
            {kind: tuple(sum(m.outcomes[kind] for m in g) for g in groups) for kind in OUTCOMES},
            tuple(sum(m.micro_usd for m in g) for g in groups),
            _sum(m for g in groups for m in g),
        )

    def unhealthy(self, now_ms: int) -> tuple[str, ...]:
        """Profiles whose last calls had no word, or all of the last UNHEALTHY_MINUTES no answer."""
        recent = self.window(now_ms, UNHEALTHY_MINUTES, 1).total.profiles
        unanswered = {
            name
            for name, calls in recent.items()
            if calls.made >= UNHEALTHY_CALLS_MIN and not calls.answered
        }
        first_ms = now_ms - UNHEALTHY_MINUTES * MINUTE_MS
        away = {
            name
            for name, (count, at_ms) in self._missed.items()
            if count >= UNHEALTHY_CALLS_MIN and at_ms > first_ms
        }
        return tuple(sorted(unanswered | away))

    def _terminal(self, event: AnswerSummary | DeadLetterSummary, at_ms: int) -> None:
        minute = self._minute(at_ms)
        if minute is None:
            return
        minute.outcomes[event.kind] += 1
        answer = event if isinstance(event, AnswerSummary) else None
        name = event.answer_schema.label if event.answer_schema else NONE
        pair = (name, answer.model.model if answer and answer.model else NONE)
        if pair not in self._rates:
            if len(self._rates) >= NAMES_MAX:
                pair = (OTHERS, OTHERS)
            self._rates.add(pair)
        rate = minute.rates.setdefault(pair, Rate())
        rate.terminals += 1
        rate.refusals += isinstance(event, RefusalSummary)
        if isinstance(event, ResultSummary):
            rate.results += 1
            rate.after_retries += (event.attempt or 1) > 1

    def _attempt(self, event: AttemptSummary, at_ms: int) -> None:
        minute = self._minute(at_ms)
        if minute is None:
            return
        minute.calls += 1
        minute.tokens += event.usage.tokens
        minute.micro_usd += event.usage.micro_usd or 0
        if event.model is None:
            return
        profile = event.model.profile
        if profile not in self._profiles:
            if len(self._profiles) >= NAMES_MAX:
                profile = OTHERS
            self._profiles.add(profile)
        is_away = event.failure is not None and event.failure.kind in _AWAY
        self._missed[profile] = (self._missed.get(profile, (0, 0))[0] + 1 if is_away else 0, at_ms)
        calls = minute.profiles.setdefault(profile, Calls())
        calls.made += 1
        calls.answered += event.outcome in _ANSWERED or (
            event.failure is not None and event.failure.kind in _READ_BY_THE_MODEL
        )

    def _minute(self, at_ms: int) -> Minute | None:
        """Where to count; None if it is too long ago."""
        number = at_ms // MINUTE_MS
        if number <= self._newest - KEPT_MINUTES:
            return None
        found = self._minutes.get(number)
        if found is None:
            found = self._minutes[number] = Minute()
            self._newest = max(self._newest, number)
            for old in [n for n in self._minutes if n <= self._newest - KEPT_MINUTES]:
                del self._minutes[old]
        return found


def _sum(minutes: Iterable[Minute]) -> Minute:
    total = Minute()
    for minute in minutes:
        total.outcomes.update(minute.outcomes)
        total.retries += minute.retries
        total.calls += minute.calls
        total.tokens += minute.tokens
        total.micro_usd += minute.micro_usd
        for pair, rate in minute.rates.items():
            total.rates.setdefault(pair, Rate()).add(rate)
        for name, calls in minute.profiles.items():
            kept = total.profiles.setdefault(name, Calls())
            kept.made += calls.made
            kept.answered += calls.answered
    return total
