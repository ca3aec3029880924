"""The dead letters of a topic as one list, with the actions on each and their effects."""

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar, assert_never

from answerbus.request_key import RequestKey
from answerbus.topics import DEAD_LETTERS, REFUSALS, RESULTS
from services.operators.dead_letters.row import (
    NOTHING,
    BudgetAmounts,
    DeadLetterRow,
    Dismissal,
    ReplayInfo,
    RowBuilder,
    with_dismissal,
)
from services.operators.records.dead_letter_key import DeadLetterKey
from services.operators.records.event_parts import SpentSummary
from services.operators.records.event_summary import (
    AnswerSummary,
    AttemptSummary,
    BudgetNearlySpentSummary,
    DeadLetterSummary,
    DismissedSummary,
    PrivateSummary,
    RefusalSummary,
    ReplayedSummary,
    RequestSummary,
    RetrySummary,
)
from services.operators.records.run_summary import RunEventSummary
from services.operators.records.stored import RecordPosition, RetryEnded
from services.operators.records.summary import RecordSummary, UndecodableRecord
from services.operators.records.within_limits import amount

TOPICS = (DEAD_LETTERS, RESULTS, REFUSALS)
"""The topics that `take` needs for the results of replays; ATTEMPTS, too, for models."""

RECENT_REQUESTS_MAX = 10_000  # that were tried, and whose dead letter may be in the next batch

Ending = Literal["pending", "answered", "refused", "dead"]
_RANK: Mapping[Ending, int] = {"pending": 0, "dead": 1, "refused": 2, "answered": 3}


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """The result of a replay; `letter` is the new dead letter of one that failed again."""

    ending: Ending
    dead_letter: DeadLetterKey | None = None


PENDING = ReplayOutcome("pending")


@dataclass(frozen=True, slots=True)
class AboutRecord:
    """The newest dead letter about a record that names a request, and Kafka's time of it."""

    written_ms: int
    dead_letter: DeadLetterKey


@dataclass(slots=True)
class Tried:
    """A summary of a request's attempts: the profile asked last, and the cost so far."""

    model: str | None = None
    cost: BudgetAmounts | None = None


Action = ReplayedSummary | DismissedSummary
Owner = str | int  # the workflow that an action names; the partition where it names none
_Info = TypeVar("_Info", ReplayInfo, tuple[Dismissal, ...])


class DeadLetterIndex:
    """Records in, dead letters out; records may come in any order, and more than once.

    Older actions name no workflow: they mean the one dead letter of that id in their partition, and
    none where it has several, which then must precede them.
    """

    def __init__(self) -> None:
        self._dead_letters: dict[DeadLetterKey, DeadLetterRow] = {}
        # By partition and id; None where dead letters of several workflows are there.
        self._placed: defaultdict[int, dict[str, DeadLetterRow | None]] = defaultdict(dict)
        # By id and owner, of dead letters that were not read yet.
        self._replays: defaultdict[str, dict[Owner, ReplayInfo]] = defaultdict(dict)
        self._dismissals: defaultdict[str, dict[Owner, tuple[Dismissal, ...]]] = defaultdict(dict)
        self._replay_outcomes: dict[RequestKey, ReplayOutcome] = {}  # by the request that was sent
        self._about_records: dict[RequestKey, AboutRecord] = {}  # likewise
        self._of_request: dict[RequestKey, DeadLetterRow] = {}
        # By request, without a dead letter so far.
        self._tried: OrderedDict[RequestKey, Tried] = OrderedDict()
        self._rows = RowBuilder()
        self.undecodable = 0
        self.ends: dict[int, int] = {}  # by partition, after the last dead letter that was taken

    def __len__(self) -> int:
        return len(self._dead_letters)

    def __iter__(self) -> Iterator[DeadLetterRow]:
        return iter(self._dead_letters.values())

    def newest(self) -> Iterator[DeadLetterRow]:
        """Those that were read last come first."""
        return reversed(self._dead_letters.values())

    def get(self, key: DeadLetterKey) -> DeadLetterRow | None:
        """The dead letter of that workflow and id."""
        return self._dead_letters.get(key)

    def named(self, text: str) -> list[DeadLetterRow]:
        """Those that are called so: `<id>@<workflow>`, or an id, which several may have."""
        key = DeadLetterKey.parse(text)
        if exact := self._dead_letters.get(key) or self._dead_letters.get(
            key._replace(workflow_id="")
        ):
            return [exact]
        if key.workflow_id:
            return []
        placed = [
            dead_letters[text] for dead_letters in self._placed.values() if text in dead_letters
        ]
        found = [dead_letter for dead_letter in placed if dead_letter is not None]
        if len(found) == len(placed):
            return found
        return [dead_letter for dead_letter in self if dead_letter.id == text]

    def replay_outcome(self, dead_letter: DeadLetterRow) -> ReplayOutcome | None:
        """The outcome of a dead letter's replay; None if there was none.

        A repaired record keeps its request id: the dead letters about it and its copies, which
        were there before, are not its outcome.
        """
        if (sent := dead_letter.replay) is None:
            return None
        owner = dead_letter.key.workflow_id if sent.workflow_id is None else sent.workflow_id
        request = RequestKey(owner, sent.request_id)
        if (found := self._replay_outcomes.get(request)) is not None:
            return found
        about = self._about_records.get(request)
        is_new = about and about.written_ms >= sent.written_ms
        if about is None or not is_new or about.dead_letter == dead_letter.key:
            return PENDING
        return ReplayOutcome("dead", about.dead_letter)

    def take(self, record: RecordSummary) -> None:
        """Learn from a record; events that do not belong to its topic are counted."""
        match record.event:
            case DeadLetterSummary() as event:
                self._take_dead_letter(event, record)
            case ReplayedSummary() as event:
                self._take_replayed(event, record)
            case DismissedSummary() as event:
                self._take_dismissed(event, record.place)
            case AttemptSummary() as event:
                self._take_attempt(event)
            case AnswerSummary() as event:
                self._take_answer(event)
            case UndecodableRecord():
                self.undecodable += 1
            case RequestSummary() | RetrySummary() | RetryEnded():
                pass
            case PrivateSummary() | RunEventSummary() | BudgetNearlySpentSummary():
                pass
            case other:
                assert_never(other)

    def _take_dead_letter(self, event: DeadLetterSummary, record: RecordSummary) -> None:
        place = record.place
        self.ends[place.partition] = max(self.ends.get(place.partition, 0), place.offset + 1)
        if (key := DeadLetterKey.of(event)) in self._dead_letters:
            return
        dead_letter = self._rows.row(event, place)
        self._dead_letters[key] = dead_letter
        placed = self._placed[place.partition]
        placed[dead_letter.id] = None if dead_letter.id in placed else dead_letter
        dead_letter.replay = _taken(self._replays, dead_letter)
        dead_letter.dismissals = _taken(self._dismissals, dead_letter) or ()
        if dead_letter.request_id is None:
            return
        request = RequestKey(dead_letter.workflow_id or "", dead_letter.request_id)
        self._of_request[request] = dead_letter
        if tried := self._tried.pop(request, None):
            dead_letter.model, dead_letter.cost = tried.model, tried.cost
        if not dead_letter.is_of_request:
            self._take_about_record(request, AboutRecord(record.at_ms, key))
        elif dead_letter.round:
            self._end(request, ReplayOutcome("dead", key))

    def _take_about_record(self, request: RequestKey, about: AboutRecord) -> None:
        """Noted also without the workflow, as `_end` does."""
        for key in (request, request._replace(workflow_id="")):
            known = self._about_records.get(key)
            if known is None or about.written_ms > known.written_ms:
                self._about_records[key] = about

    def _take_replayed(self, event: ReplayedSummary, record: RecordSummary) -> None:
        partition, sent = record.place.partition, self._rows.replay(event, record.at_ms)
        dead_letter = self._meant(event, partition)
        if dead_letter is not None:
            dead_letter.replay = dead_letter.replay or sent
        elif (owner := self._owner_of(event, partition)) is not None:
            self._replays[event.dead_letter_id].setdefault(owner, sent)

    def _take_dismissed(self, event: DismissedSummary, place: RecordPosition) -> None:
        dismissal = self._rows.dismissal(event, place.offset)
        dead_letter = self._meant(event, place.partition)
        if dead_letter is not None:
            dead_letter.dismissals = with_dismissal(dead_letter.dismissals, dismissal)
        elif (owner := self._owner_of(event, place.partition)) is not None:
            known = self._dismissals[event.dead_letter_id]
            known[owner] = with_dismissal(known.get(owner, ()), dismissal)

    def _meant(self, event: Action, partition: int) -> DeadLetterRow | None:
        """The dead letter of an action, if it was read and is the only one that is meant."""
        if event.workflow_id is None:
            return self._placed[partition].get(event.dead_letter_id)
        key = DeadLetterKey(event.workflow_id, event.dead_letter_id)
        return self._dead_letters.get(key) or self._dead_letters.get(key._replace(workflow_id=""))

    def _owner_of(self, event: Action, partition: int) -> Owner | None:
        """Requests whose dead letter is to come; None where there are too many dead letters."""
        if event.workflow_id is not None:
            return event.workflow_id
        return None if event.dead_letter_id in self._placed[partition] else partition

    def _take_answer(self, event: AnswerSummary) -> None:
        if event.replay is not None:
            ending: Ending = "refused" if isinstance(event, RefusalSummary) else "answered"
            request = RequestKey(event.workflow_id or "", event.request_id)
            self._end(request, ReplayOutcome(ending))

    def _take_attempt(self, event: AttemptSummary) -> None:
        if not event.is_call:
            return
        request = RequestKey.of(event)
        tried: Tried | DeadLetterRow | None = self._of_request.get(request)
        if tried is None:
            tried = self._tried.setdefault(request, Tried())
            if len(self._tried) > RECENT_REQUESTS_MAX:
                self._tried.popitem(last=False)
        cost = tried.cost or NOTHING
        attempt = amount(event.attempt)
        if attempt > cost.attempts:  # else it was read before
            if event.model:  # else it was lost with its worker
                tried.model = self._rows.interned(event.model.model)
            # Of a call without reported usage its worst case was charged.
            used, charged = event.usage, event.charged or SpentSummary()
            tokens = (cost.tokens or 0) + max(used.tokens, charged.tokens)
            micro_usd = (cost.micro_usd or 0) + max(used.micro_usd or 0, charged.micro_usd)
            tried.cost = BudgetAmounts(attempt, tokens, micro_usd)

    def _end(self, request: RequestKey, outcome: ReplayOutcome) -> None:
        """A request has one outcome; a stray record that claims its id must not hide it.

        Noted also without the workflow, which older replays of repaired records do not name.
        """
        for key in (request, request._replace(workflow_id="")):
            known = self._replay_outcomes.get(key, PENDING)
            if _RANK[outcome.ending] > _RANK[known.ending]:
                self._replay_outcomes[key] = outcome


def _taken(awaiting: Mapping[str, dict[Owner, _Info]], dead_letter: DeadLetterRow) -> _Info | None:
    """The action on a dead letter read later; without a request, the id identifies it."""
    found = awaiting.get(dead_letter.id)
    if not found:
        return None
    own = (dead_letter.workflow_id or "", dead_letter.place.partition)
    owners = own if dead_letter.is_of_request else tuple(found)
    return next((found.pop(owner) for owner in owners if owner in found), None)
