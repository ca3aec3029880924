"""The dead letters of a topic as one list, with the actions on each and their effects."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from answerbus.topics import DEAD_LETTERS, REFUSALS, RESULTS
from services.operators.dead_letters.row import (
    NOTHING,
    DeadLetterRow,
    Dismissal,
    Funds,
    ReplayInfo,
    RowBuilder,
)
from services.operators.records.event_summary import (
    AnswerSummary,
    AttemptSummary,
    DeadLetterSummary,
    DismissedSummary,
    PrivateSummary,
    RefusalSummary,
    ReplayedSummary,
    RequestSummary,
    RetrySummary,
)
from services.operators.records.run_summary import RunEventSummary
from services.operators.records.stored import Place, RetryEnded
from services.operators.records.summary import RecordSummary, UndecodableRecord
from services.operators.records.within_limits import amount

TOPICS = (DEAD_LETTERS, RESULTS, REFUSALS)
"""What `take` needs to say what came of replays; ATTEMPTS, too, where models are wanted."""

RECENT_REQUESTS_MAX = 10_000  # that were tried, and whose dead letter may stand in the next batch

Ending = Literal["pending", "answered", "refused", "dead"]
_RANK: Mapping[Ending, int] = {"pending": 0, "dead": 1, "refused": 2, "answered": 3}


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What came of a replay; `letter_id` is the new dead letter of one that died again."""

    ending: Ending
    letter_id: str | None = None


PENDING = ReplayOutcome("pending")


@dataclass(slots=True)
class Tried:
    """What the attempts of a request say: who was asked last, and what they cost so far."""

    model: str | None = None
    cost: Funds | None = None


class DeadLetterIndex:
    """Records in, dead letters out; records may come in any order, and more than once."""

    def __init__(self) -> None:
        self._letters: dict[str, DeadLetterRow] = {}
        self._replays: dict[str, ReplayInfo] = {}  # by letter, of letters that were not read yet
        self._dismissals: dict[str, Dismissal] = {}  # likewise
        self._replay_outcomes: dict[str, ReplayOutcome] = {}  # by the request that was sent
        self._of_request: dict[str, DeadLetterRow] = {}
        self._tried: OrderedDict[str, Tried] = OrderedDict()  # by request, without a letter so far
        self._rows = RowBuilder()
        self.undecodable = 0
        self.ends: dict[int, int] = {}  # by partition, after the last letter that was taken

    def __len__(self) -> int:
        return len(self._letters)

    def __iter__(self) -> Iterator[DeadLetterRow]:
        return iter(self._letters.values())

    def newest(self) -> Iterator[DeadLetterRow]:
        """Those that were read last come first."""
        return reversed(self._letters.values())

    def get(self, letter_id: str) -> DeadLetterRow | None:
        """The dead letter of that id."""
        return self._letters.get(letter_id)

    def replay_outcome(self, letter: DeadLetterRow) -> ReplayOutcome | None:
        """What came of a dead letter's replay; None if there was none."""
        return (
            self._replay_outcomes.get(letter.replay.request_id, PENDING) if letter.replay else None
        )

    def take(self, record: RecordSummary) -> None:
        """Learn from a record; what is none of the events of its topic is counted."""
        match record.event:
            case DeadLetterSummary() as event:
                self._take_letter(event, record.place)
            case ReplayedSummary() as event:
                self._take_replayed(event)
            case DismissedSummary() as event:
                self._take_dismissed(event)
            case AttemptSummary() as event:
                self._take_attempt(event)
            case AnswerSummary() as event:
                self._take_answer(event)
            case UndecodableRecord():
                self.undecodable += 1
            case RequestSummary() | RetrySummary() | RetryEnded():
                pass
            case PrivateSummary() | RunEventSummary():
                pass
            case other:
                assert_never(other)

    def _take_letter(self, event: DeadLetterSummary, place: Place) -> None:
        self.ends[place.partition] = max(self.ends.get(place.partition, 0), place.offset + 1)
        if event.dead_letter_id in self._letters:
            return
        letter = self._rows.row(event, place)
        self._letters[letter.id] = letter
        letter.replay = self._replays.pop(letter.id, None)
        letter.dismissal = self._dismissals.pop(letter.id, None)
        if letter.request_id is None:
            return
        self._of_request[letter.request_id] = letter
        if tried := self._tried.pop(letter.request_id, None):
            letter.model, letter.cost = tried.model, tried.cost
        if letter.round or not letter.has_request:
            self._end(letter.request_id, ReplayOutcome("dead", letter.id))

    def _take_replayed(self, event: ReplayedSummary) -> None:
        sent = self._rows.replay(event)
        letter = self._letters.get(event.dead_letter_id)
        if letter is None:
            self._replays.setdefault(event.dead_letter_id, sent)
        elif letter.replay is None:
            letter.replay = sent

    def _take_dismissed(self, event: DismissedSummary) -> None:
        dismissal = self._rows.dismissal(event)
        letter = self._letters.get(event.dead_letter_id)
        if letter is None:
            self._dismissals.setdefault(event.dead_letter_id, dismissal)
        elif letter.dismissal is None:
            letter.dismissal = dismissal

    def _take_answer(self, event: AnswerSummary) -> None:
        if event.replay is not None:
            ending: Ending = "refused" if isinstance(event, RefusalSummary) else "answered"
            self._end(event.request_id, ReplayOutcome(ending))

    def _take_attempt(self, event: AttemptSummary) -> None:
        if event.model is None:
            return
        tried: Tried | DeadLetterRow | None = self._of_request.get(event.request_id)
        if tried is None:
            tried = self._tried.setdefault(event.request_id, Tried())
            if len(self._tried) > RECENT_REQUESTS_MAX:
                self._tried.popitem(last=False)
        cost = tried.cost or NOTHING
        attempt = amount(event.attempt)
        if attempt > cost.attempts:  # else it was read before
            tried.model = self._rows.interned(event.model.model)
            tokens = (cost.tokens or 0) + event.usage.tokens
            micro_usd = (cost.micro_usd or 0) + (event.usage.micro_usd or 0)
            tried.cost = Funds(attempt, tokens, micro_usd)

    def _end(self, request_id: str, outcome: ReplayOutcome) -> None:
        """A request has one terminal; a stray record that claims its id must not hide it."""
        known = self._replay_outcomes.get(request_id, PENDING)
        if _RANK[outcome.ending] > _RANK[known.ending]:
            self._replay_outcomes[request_id] = outcome
