"""Everything the pages know of the topics, folded from each record once; pure."""

from collections import defaultdict, deque

from answerbus.topics import DEAD_LETTERS, LEDGER, REQUESTS, RUNS
from services.console.state.board import Board
from services.console.state.control_actions import ControlActions
from services.console.state.dead_letter_cache import DeadLetterCache
from services.console.state.group_cache import GroupCache
from services.console.state.lanes import Lanes
from services.console.state.open_runs import OpenRuns
from services.console.state.request_times import RequestTimes
from services.console.state.topic_counts import TopicCounts
from services.console.state.workflow_index import WorkflowIndex, dead_letter_key, retry_key
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.records.event_summary import (
    AnswerSummary,
    DeadLetterSummary,
    DismissedSummary,
    ReplayedSummary,
)
from services.operators.records.stored import RetryEnded, Stored
from services.operators.records.summary import RecordSummary, summarize

TAIL_RECORDS = 300
SKIPPED_KEY = b"skipped:"
_PRIVATE = (LEDGER, RUNS)


class ConsoleState:
    def __init__(self) -> None:
        self.board = Board()
        self.lanes = Lanes()
        self.dead_letters = DeadLetterIndex()
        self.group_cache = GroupCache(self.dead_letters)
        self.dead_letter_cache = DeadLetterCache(self.dead_letters)
        self.workflows = WorkflowIndex()
        self.open_runs = OpenRuns()
        self.control_actions = ControlActions()
        self.request_times: defaultdict[int, RequestTimes] = defaultdict(RequestTimes)
        self.topic_counts = TopicCounts()
        self.records = 0
        self.ended_ms: int | None = None  # when the newest outcome was published
        self._tail: deque[RecordSummary] = deque(maxlen=TAIL_RECORDS)

    def take(self, stored: Stored) -> None:
        """Learn from one record; never an exception."""
        self.records += 1
        self.topic_counts.take(stored)
        if stored.topic is RUNS and not (stored.key or b"").startswith(SKIPPED_KEY):
            return  # what workers keep of open runs; their steps are a topic of their own
        record = summarize(stored)
        if (key := _key(record)) is not None:
            self.workflows.add(key, record.place)
        self.control_actions.take(record)
        if stored.topic is LEDGER:
            self.lanes.take(record)
        if stored.topic in _PRIVATE:
            return
        if stored.topic is REQUESTS:
            self.request_times[stored.partition].take(stored.offset, stored.at_ms)
        if isinstance(record.event, AnswerSummary | DeadLetterSummary):
            self.ended_ms = max(self.ended_ms or 0, record.at_ms)
        self.board.take(record)
        self.open_runs.take(record)
        self.dead_letters.take(record)
        self._tail.append(record)
        if stored.topic is DEAD_LETTERS:
            self.group_cache.note(record)
            self.dead_letter_cache.note(record)

    def tail(self) -> list[RecordSummary]:
        """The newest records, the newest first; those of the ledger are left out."""
        return sorted(self._tail, key=lambda record: record.at_ms, reverse=True)


def _key(record: RecordSummary) -> str | None:
    """Under which the record is found: its workflow, or what leads to it from one."""
    match record.event:
        case (ReplayedSummary(workflow_id=None) | DismissedSummary(workflow_id=None)) as event:
            return dead_letter_key(event.dead_letter_id)
        case RetryEnded(request_id=request_id, workflow_id=None):
            return retry_key(request_id)
        case DeadLetterSummary(workflow_id=None) as event:
            return dead_letter_key(event.dead_letter_id)
        case _:
            return record.workflow_id
