"""Which requests are asked again live, drawn from the topics as their records come; pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

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
class Drawn:
    """A request that was answered, and the profile that it was asked of."""

    profile: str
    sampled: Sampled


@dataclass(slots=True)
class _Open:
    profile: str
    request: RecordPosition
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

    def may_need(self, record: RecordSummary) -> bool:
        """Whether a record is worth keeping for `take`."""
        match record.event:
            case RequestSummary(agent=None) as event:
                return draw_of(RequestKey.of(event)) < self._below.get(event.profile, 0)
            case AttemptSummary(attempt=1) | AnswerSummary() | DeadLetterSummary() as event:
                key = _key(event)
                return key is not None and draw_of(key) < self._below_all
            case _:
                return False

    def take(
        self,
        requests: Iterable[RecordSummary],
        attempts: Iterable[RecordSummary],
        outcomes: Iterable[RecordSummary],
    ) -> Iterator[Drawn]:
        """The drawn ones that were answered.

        To be read in the opposite order: the past of an outcome that is read is there by then.
        """
        for record in requests:
            self._begin(record)
        for record in attempts:
            if isinstance(event := record.event, AttemptSummary) and event.is_call:
                found = self._open.get(RequestKey.of(event))
                if found and event.outcome != "released":
                    found.first = event
        for record in outcomes:
            if drawn := self._ended(record):
                yield drawn

    def _begin(self, record: RecordSummary) -> None:
        if not isinstance(event := record.event, RequestSummary):
            return
        self._open.setdefault(RequestKey.of(event), _Open(event.profile, record.place))
        if len(self._open) > OPEN_MAX:
            first = self._open.pop(next(iter(self._open)))
            self._on_forgotten(first.profile)

    def _ended(self, record: RecordSummary) -> Drawn | None:
        event = record.event
        if not isinstance(event, AnswerSummary | DeadLetterSummary):
            return None
        key = _key(event)
        found = self._open.pop(key, None) if key else None
        if key is None or found is None or not is_answered(event):
            return None
        attempts = {found.first.attempt: found.first} if found.first else {}
        sampled = Sampled(key, record.place, record.at_ms, found.request, attempts=attempts)
        return Drawn(found.profile, sampled)


def _key(event: AttemptSummary | AnswerSummary | DeadLetterSummary) -> RequestKey | None:
    if event.workflow_id is None or event.request_id is None:
        return None
    return RequestKey(event.workflow_id, event.request_id)
