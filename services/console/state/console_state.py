"""Everything the pages know of the topics, folded from each record once; pure."""

from collections import deque

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEDGER, REFUSALS, RESULTS, Topic
from services.console.state.board import Board
from services.console.state.group_cache import GroupCache
from services.console.state.lanes import Lanes
from services.console.state.workflow_index import WorkflowIndex, letter_key, retry_key
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.records.stored import Stored
from services.operators.records.summary import RETRY_ENDED, RecordSummary, summarize

TAIL_RECORDS = 300
_OF_LETTERS = (DEAD_LETTERS, RESULTS, REFUSALS)


class ConsoleState:
    """One fold of folds."""

    def __init__(self) -> None:
        self.board = Board()
        self.lanes = Lanes()
        self.dead_letters = DeadLetterIndex()
        self.group_cache = GroupCache(self.dead_letters)
        self.workflows = WorkflowIndex()
        self.records = 0
        self._tail: deque[RecordSummary] = deque(maxlen=TAIL_RECORDS)

    def take(self, stored: Stored) -> None:
        """Learn from one record; never an exception."""
        self.records += 1
        seen = summarize(stored)
        if (key := _key(seen)) is not None:
            self.workflows.add(key, seen.place)
        if stored.topic is LEDGER:
            self.lanes.take(seen)
            return
        self.board.take(seen)
        self._tail.append(seen)
        if _is_of_letters(stored.topic, seen):
            self.dead_letters.take(stored)
        if stored.topic is DEAD_LETTERS:
            self.group_cache.clear()

    def tail(self) -> list[RecordSummary]:
        """The newest records, the newest first; those of the ledger are left out."""
        return sorted(self._tail, key=lambda seen: seen.at_ms, reverse=True)


def _key(seen: RecordSummary) -> str | None:
    if seen.workflow_id is not None:
        return seen.workflow_id
    if seen.kind == RETRY_ENDED and seen.request_id is not None:
        return retry_key(seen.request_id)
    return None if seen.dead_letter_id is None else letter_key(seen.dead_letter_id)


def _is_of_letters(topic: Topic, seen: RecordSummary) -> bool:
    return topic in _OF_LETTERS or (topic is ATTEMPTS and seen.model is not None)
