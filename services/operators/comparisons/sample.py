"""Which requests of a time are asked again, and what the topics hold of them; pure."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from answerbus.request_key import RequestKey
from services.operators.records.event_summary import (
    AnswerSummary,
    AttemptSummary,
    DeadLetterSummary,
    RequestSummary,
)
from services.operators.records.run_summary import StepSummary, ToolEndedSummary
from services.operators.records.stored import RecordPosition
from services.operators.records.summary import RecordSummary
from services.text.digest import text_digest

RECORDS_MAX = 200  # of the steps of one run, and attempts of one request
SLACK_MS = 60_000  # how much older than its outcome says a request may be
_OF_THE_ANSWER = frozenset({"invalid", "malformed", "truncated", "refused"})
_UNKNOWN_TOOK_MS = 3_600_000
DRAWS = 2**256


@dataclass(slots=True)
class Sampled:
    """A request with the positions of its records, and its attempts by number."""

    key: RequestKey
    outcome: RecordPosition
    began_ms: int
    request: RecordPosition | None = None
    steps: list[RecordPosition] = field(default_factory=list)
    attempts: dict[int, AttemptSummary] = field(default_factory=dict)
    is_cut: bool = False  # it has more records than are kept of it


class OutcomeSample:
    """The `size` outcomes whose ids have the smallest digests: a fair draw, and always the same.

    Dead letters are among them where an answer was at fault, since another model may do better.
    """

    def __init__(self, size: int, contract: str | None = None) -> None:
        self._size, self._contract = size, contract
        self._heap: list[tuple[int, RequestKey]] = []
        self._found: dict[RequestKey, Sampled] = {}
        self.seen = 0

    def take_outcome(self, record: RecordSummary) -> None:
        """Draw it, perhaps."""
        event = record.event
        if not isinstance(event, AnswerSummary | DeadLetterSummary) or not self._fits(event):
            return
        if event.workflow_id is None or event.request_id is None:
            return
        key = RequestKey(event.workflow_id, event.request_id)
        if key in self._found:
            return  # written twice
        self.seen += 1
        took_ms = event.took_ms if isinstance(event, AnswerSummary) else None
        began_ms = record.at_ms - int(_UNKNOWN_TOOK_MS if took_ms is None else took_ms) - SLACK_MS
        heapq.heappush(self._heap, (-draw_of(key), key))
        self._found[key] = Sampled(key, record.place, began_ms)
        if len(self._heap) > self._size:
            _, last = heapq.heappop(self._heap)
            del self._found[last]

    def take_past(self, record: RecordSummary) -> None:
        """Take a record, if it is about a request that was drawn."""
        match record.event:
            case RequestSummary() as event:
                if found := self._found.get(RequestKey.of(event)):
                    found.request = record.place
            case AttemptSummary() as event:
                if found := self._found.get(RequestKey.of(event)):
                    found.is_cut = found.is_cut or len(found.attempts) >= RECORDS_MAX
                    if event.is_call and event.outcome != "released" and not found.is_cut:
                        found.attempts[event.attempt] = event
            case StepSummary() | ToolEndedSummary() as event:
                key = RequestKey(event.workflow_id, event.request_id or "")
                if found := self._found.get(key):
                    found.is_cut = found.is_cut or len(found.steps) >= RECORDS_MAX
                    found.steps.append(record.place)
            case _:
                pass

    @property
    def begins_ms(self) -> int | None:
        """When the first of their requests may have been written."""
        return min((one.began_ms for one in self._found.values()), default=None)

    def __iter__(self) -> Iterator[Sampled]:
        """In the order of the draw."""
        return iter(sorted(self._found.values(), key=lambda one: draw_of(one.key)))

    def __len__(self) -> int:
        return len(self._found)

    def _fits(self, event: AnswerSummary | DeadLetterSummary) -> bool:
        if not is_answered(event):
            return False
        schema = event.answer_schema
        if self._contract is None:
            return True
        return schema is not None and self._contract in (schema.label, schema.name)


def is_answered(event: AnswerSummary | DeadLetterSummary) -> bool:
    """Whether there was an answer, be it one that was at fault: another model may do better."""
    if isinstance(event, DeadLetterSummary):
        return event.request is not None and event.failure in _OF_THE_ANSWER
    return True


def draw_of(key: RequestKey) -> int:
    """The digest of the ids, below DRAWS: always the same, and fair over many requests."""
    return int(text_digest(f"{key.workflow_id}\0{key.request_id}").removeprefix("sha256:"), 16)
