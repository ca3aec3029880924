"""Back-pressure: a lane pauses its partition above high marks and resumes below half of them."""

from services.worker.context import Limits
from services.worker.core.tally import Tally
from services.worker.lane.queue import Queue
from services.worker.ports import Intake


class Valve:
    """The one place that pauses and resumes delivery to an open lane."""

    def __init__(self, intake: Intake, limits: Limits, tally: Tally) -> None:
        self._intake = intake
        self._limits = limits
        self._tally = tally
        self._held = 0
        self._shut = True

    def open_at(self, offset: int) -> None:
        """Let records come from `offset` on, whatever was fetched or paused before."""
        self._intake.seek(offset)
        self._intake.resume()
        self._shut = False

    def shut(self) -> None:
        """Let none come."""
        self._intake.pause()
        self._shut = True

    def regulate(self, queue: Queue, backlog_bytes: int) -> None:
        """Adjust to what the lane holds and has yet to write, and to the retries all lanes hold."""
        self.count_held(queue.held)
        limits = self._limits
        held_bytes = queue.bytes + backlog_bytes
        load = max(len(queue) / limits.lane_requests_max, held_bytes / limits.lane_bytes_max)
        crowded = self._tally.held >= limits.held_max
        if not self._shut and (load >= 1 or crowded):
            self.shut()
        elif self._shut and load <= 1 / 2 and not crowded:
            self._intake.resume()
            self._shut = False

    def count_held(self, held: int) -> None:
        """Keep the worker's total of held retries right."""
        self._tally.held += held - self._held
        self._held = held
