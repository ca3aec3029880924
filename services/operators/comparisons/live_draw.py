"""Which requests are asked again live, drawn from the topics as their records come; pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from answerbus.request_key import RequestKey
from services.operators.comparisons.sample import DRAWS, Sampled, draw_of, is_answered
from services.operators.records.event_summary import (
    AnswerSummary,
    AttemptSummary,
    DeadLetterSummary,
    RequestSummary,
)
from services.operators.records.stored import RecordPosition
from services.operators.records.summary import RecordSummary

OPEN_MAX = 10_000  # drawn requests without an outcome; those that came first are forgotten


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request of a profile that has a shadow."""

    key: RequestKey
    profile: str
    place: RecordPosition


@dataclass(frozen=True, slots=True)
class SeenCall:
    """The result of its first call."""

    key: RequestKey
    attempt: AttemptSummary


@dataclass(frozen=True, slots=True)
class SeenOutcome:
    """It has its outcome; without an answer there is nothing to compare."""

    key: RequestKey
    place: RecordPosition
    at_ms: int
    has_answer: bool


SeenRecord = SeenRequest | SeenCall | SeenOutcome


@dataclass(frozen=True, slots=True)
class Drawn:
    """A request that was answered, and the profile that it was asked of."""

    profile: str
    sampled: Sampled


@dataclass(slots=True)
class _Open:
    profile: str
    place: RecordPosition
    first: AttemptSummary | None = None


class LiveDraw:
    """Of each profile with a share, the requests whose ids have digests below it.

    The ids decide alone, so that a request that is delivered again is drawn as before. Runs of
    agents are not drawn: the ends of their tools' calls would have to be followed as well.
    """

    def __init__(self, shares: Mapping[str, float], on_forgotten: Callable[[str], None]) -> None:
        """`on_forgotten` is called with the profile of each request that is."""
        self._below = {profile: int(share * DRAWS) for profile, share in shares.items()}
        self._below_all = max(self._below.values(), default=0)
        self._open: dict[RequestKey, _Open] = {}
        self._on_forgotten = on_forgotten

    def seen(self, record: RecordSummary) -> SeenRecord | None:
        """What `take` needs of a record, however large that is, if its request may be drawn."""
        match record.event:
            case RequestSummary(agent=None) as event:
                key, below = RequestKey.of(event), self._below.get(event.profile, 0)
                return (
                    SeenRequest(key, event.profile, record.place) if draw_of(key) < below else None
                )
            case AttemptSummary(attempt=1) as event:
                key = RequestKey.of(event)
                if event.outcome != "released" and draw_of(key) < self._below_all:
                    return SeenCall(key, event.without_labels)
                return None
            case (AnswerSummary() | DeadLetterSummary()) as event:
                key = RequestKey(event.workflow_id or "", event.request_id or "")
                if draw_of(key) < self._below_all:
                    return SeenOutcome(key, record.place, record.at_ms, is_answered(event))
                return None
            case _:
                return None

    def take(self, records: Iterable[SeenRecord]) -> Iterator[Drawn]:
        """The drawn ones that were answered, of records in the order of requests, calls, outcomes.

        To be read in the opposite order: the past of an outcome that is read is there by then.
        """
        for seen in records:
            match seen:
                case SeenRequest():
                    self._begin(seen)
                case SeenCall():
                    if found := self._open.get(seen.key):
                        found.first = seen.attempt
                case SeenOutcome():
                    found = self._open.pop(seen.key, None)
                    if found and seen.has_answer:
                        yield _drawn(found, seen)
                case _:
                    assert_never(seen)

    def _begin(self, seen: SeenRequest) -> None:
        self._open.setdefault(seen.key, _Open(seen.profile, seen.place))
        if len(self._open) > OPEN_MAX:
            first = self._open.pop(next(iter(self._open)))
            self._on_forgotten(first.profile)


def _drawn(found: _Open, ended: SeenOutcome) -> Drawn:
    attempts = {found.first.attempt: found.first} if found.first else {}
    sampled = Sampled(ended.key, ended.place, ended.at_ms, found.place, attempts=attempts)
    return Drawn(found.profile, sampled)
