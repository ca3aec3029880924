"""The dead letters of a topic as one list: who died, what was done about it, what came of that."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from answerbus.topics import DEAD_LETTERS, REFUSALS, RESULTS
from services.letters import heading
from services.letters.letter import Letter, PutAside, Sent
from services.letters.making import Maker
from services.reading.stored import Stored

TOPICS = (DEAD_LETTERS, RESULTS, REFUSALS)
"""What `take` needs to say what came of replays; ATTEMPTS, too, where models are wanted."""

RECENT_MODELS_MAX = 10_000  # of requests whose letter may stand in the next batch

Ending = Literal["pending", "answered", "refused", "dead"]
_RANK: Mapping[Ending, int] = {"pending": 0, "dead": 1, "refused": 2, "answered": 3}


@dataclass(frozen=True, slots=True)
class Fate:
    """What came of a replay; `letter_id` is the new letter of one that died again."""

    ending: Ending
    letter_id: str | None = None


PENDING = Fate("pending")


class Letters:
    """Records in, letters out; records may come in any order, and more than once."""

    def __init__(self) -> None:
        self._letters: dict[str, Letter] = {}
        self._sent: dict[str, Sent] = {}  # by letter, of letters that were not read yet
        self._aside: dict[str, PutAside] = {}  # likewise
        self._fates: dict[str, Fate] = {}  # by the request that was sent
        self._of_request: dict[str, Letter] = {}
        self._models: OrderedDict[str, str] = OrderedDict()  # by request, without a letter so far
        self._maker = Maker()
        self.undecodable = 0

    def __len__(self) -> int:
        return len(self._letters)

    def __iter__(self) -> Iterator[Letter]:
        return iter(self._letters.values())

    def get(self, letter_id: str) -> Letter | None:
        """The letter of that id."""
        return self._letters.get(letter_id)

    def fate(self, letter: Letter) -> Fate | None:
        """What came of a letter's replay; None if there was none."""
        return self._fates.get(letter.sent.request_id, PENDING) if letter.sent else None

    def take(self, stored: Stored) -> None:
        """Learn from a record; what is none of the events of its topic is counted."""
        head = heading.head_of(stored.value)
        if head is None:
            self.undecodable += 1
        elif head["kind"] == "dead_letter":
            self._take_letter(head, stored)
        elif head["kind"] == "replayed":
            self._take_replayed(head)
        elif head["kind"] == "dismissed":
            self._take_dismissed(head)
        elif head["kind"] == "attempt":
            self._take_attempt(head)
        else:
            self._take_answer(head)

    def _take_letter(self, head: heading.LetterHead, stored: Stored) -> None:
        letter = self._maker.letter(head, stored.place)
        if letter.id in self._letters:
            return
        self._letters[letter.id] = letter
        letter.sent = self._sent.pop(letter.id, None)
        letter.aside = self._aside.pop(letter.id, None)
        if letter.request_id is None:
            return
        self._of_request[letter.request_id] = letter
        letter.model = self._models.pop(letter.request_id, None)
        if letter.round or not letter.has_request:
            self._end(letter.request_id, Fate("dead", letter.id))

    def _take_replayed(self, head: heading.ReplayedHead) -> None:
        sent = self._maker.sent(head)
        letter = self._letters.get(head["dead_letter_id"])
        if letter is None:
            self._sent.setdefault(head["dead_letter_id"], sent)
        elif letter.sent is None:
            letter.sent = sent

    def _take_dismissed(self, head: heading.DismissedHead) -> None:
        aside = self._maker.aside(head)
        letter = self._letters.get(head["dead_letter_id"])
        if letter is None:
            self._aside.setdefault(head["dead_letter_id"], aside)
        elif letter.aside is None:
            letter.aside = aside

    def _take_answer(self, head: heading.AnswerHead) -> None:
        if head.get("replay"):
            ending: Ending = "refused" if head["kind"] == "refusal" else "answered"
            self._end(head["request_id"], Fate(ending))

    def _take_attempt(self, head: heading.AttemptHead) -> None:
        if head["model"] is None:
            return
        model = self._maker.one(head["model"]["model"])
        letter = self._of_request.get(head["request_id"])
        if letter is not None:
            letter.model = model
            return
        self._models[head["request_id"]] = model
        if len(self._models) > RECENT_MODELS_MAX:
            self._models.popitem(last=False)

    def _end(self, request_id: str, fate: Fate) -> None:
        """A request has one terminal; a stray record that claims its id must not hide it."""
        known = self._fates.get(request_id, PENDING)
        if _RANK[fate.ending] > _RANK[known.ending]:
            self._fates[request_id] = fate
