"""Everything the pages know of the topics, folded from each record once; pure."""

from collections import deque

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEDGER, REFUSALS, RESULTS, Topic
from services.console.board import Board
from services.console.glimpse import RETRY_ENDED, Glimpse, glimpse
from services.console.groupings import Groupings
from services.console.index import WorkflowIndex, letter_key, retry_key
from services.console.lanes import Lanes
from services.letters.fold import Letters
from services.reading.stored import Stored

TAIL_RECORDS = 300
_OF_LETTERS = (DEAD_LETTERS, RESULTS, REFUSALS)


class Picture:
    """One fold of folds."""

    def __init__(self) -> None:
        self.board = Board()
        self.lanes = Lanes()
        self.letters = Letters()
        self.groupings = Groupings(self.letters)
        self.workflows = WorkflowIndex()
        self.records = 0
        self._tail: deque[Glimpse] = deque(maxlen=TAIL_RECORDS)

    def take(self, stored: Stored) -> None:
        """Learn from one record; never an exception."""
        self.records += 1
        seen = glimpse(stored)
        if (key := _key(seen)) is not None:
            self.workflows.add(key, seen.place)
        if stored.topic is LEDGER:
            self.lanes.take(seen)
            return
        self.board.take(seen)
        self._tail.append(seen)
        if _is_of_letters(stored.topic, seen):
            self.letters.take(stored)
        if stored.topic is DEAD_LETTERS:
            self.groupings.forget()

    def tail(self) -> list[Glimpse]:
        """The newest records, the newest first; those of the ledger are left out."""
        return sorted(self._tail, key=lambda seen: seen.at_ms, reverse=True)


def _key(seen: Glimpse) -> str | None:
    if seen.workflow_id is not None:
        return seen.workflow_id
    if seen.kind == RETRY_ENDED and seen.request_id is not None:
        return retry_key(seen.request_id)
    return None if seen.dead_letter_id is None else letter_key(seen.dead_letter_id)


def _is_of_letters(topic: Topic, seen: Glimpse) -> bool:
    return topic in _OF_LETTERS or (topic is ATTEMPTS and seen.model is not None)
