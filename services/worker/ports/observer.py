"""Observers of lanes, called after the work: metrics and traces."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from answerbus.attempt import Attempt
from answerbus.dead_letter import DeadLetter
from answerbus.step import ToolEnded
from services.worker.core.budget.account import Spend
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision
from services.worker.core.request.lane_request import LaneRequest


class Observer:
    """Called after each event; must return at once and must not raise.

    This one does nothing: others override what they observe.
    """

    def admitted(self, lane_request: LaneRequest) -> None:
        """A request was admitted."""

    def rejected(self, dead_letter: DeadLetter) -> None:
        """A record that cannot become a request is about to have its dead letter."""

    def settled(self, call: Call, decision: Decision, now: datetime) -> None:
        """The outcome of a call that ended at `now` is committed."""

    def stepped(self, lane_request: LaneRequest) -> None:
        """A run took a step that no model was asked for, and that is committed."""

    def released(self, lane_request: LaneRequest, spend: Spend) -> None:
        """A spend was given back; its call never began."""

    def dead_lettered(self, lane_request: LaneRequest, dead_letter: DeadLetter) -> None:
        """A request was ended without another call, and that is committed."""

    def call_ended(self, lane_request: LaneRequest, tool: str, end: ToolEnded) -> None:
        """The end of a run's call is about to be written; `tool` is bounded, see open_runs.py."""

    def opened(self, partition: int, left_over: Sequence[Attempt]) -> None:
        """A lane was opened, and what its predecessor left over is settled."""

    def committed(self, took_s: float) -> None:
        """A transaction is committed."""

    def lost(self) -> None:
        """A transaction may or may not be committed."""


class Observers(Observer):
    """Calls each of several observers."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = tuple(observers)

    def admitted(self, lane_request: LaneRequest) -> None:
        for observer in self._observers:
            observer.admitted(lane_request)

    def rejected(self, dead_letter: DeadLetter) -> None:
        for observer in self._observers:
            observer.rejected(dead_letter)

    def settled(self, call: Call, decision: Decision, now: datetime) -> None:
        for observer in self._observers:
            observer.settled(call, decision, now)

    def stepped(self, lane_request: LaneRequest) -> None:
        for observer in self._observers:
            observer.stepped(lane_request)

    def released(self, lane_request: LaneRequest, spend: Spend) -> None:
        for observer in self._observers:
            observer.released(lane_request, spend)

    def dead_lettered(self, lane_request: LaneRequest, dead_letter: DeadLetter) -> None:
        for observer in self._observers:
            observer.dead_lettered(lane_request, dead_letter)

    def call_ended(self, lane_request: LaneRequest, tool: str, end: ToolEnded) -> None:
        for observer in self._observers:
            observer.call_ended(lane_request, tool, end)

    def opened(self, partition: int, left_over: Sequence[Attempt]) -> None:
        for observer in self._observers:
            observer.opened(partition, left_over)

    def committed(self, took_s: float) -> None:
        for observer in self._observers:
            observer.committed(took_s)

    def lost(self) -> None:
        for observer in self._observers:
            observer.lost()


@dataclass(slots=True)
class WorkerCounters:
    """Totals without an event of their own, since the start, over all lanes.

    The last three are of this moment.
    """

    duplicates: int = 0
    forwarded: int = 0
    unreadable: int = 0  # records that no client can read, each with its dead letter
    lost_to_retention: int = 0  # requests that were deleted before they were read
    # Results and controls that nothing waits for: late, double, or not readable.
    ignored_signals: int = 0
    held: int = 0  # retries in memory
    requests: int = 0  # in memory, as backpressure counts them
    lanes: int = 0  # that take requests in
