"""Back-pressure: a lane pauses its partition above high marks and resumes below half of them."""

from collections.abc import Container

from services.worker.lane.context import LaneContext, Limits
from services.worker.lane.state.counted_requests import CountedShares
from services.worker.lane.state.queue import Queue
from services.worker.ports.kafka import Intake
from services.worker.ports.observer import WorkerCounters

CROWD_FACTOR = 8  # so many that are behind others, or cannot be asked, count as one request
EXCESS_BYTES = 2_048  # of memory, beside its value, for a request that counts in no other way
ROUNDS_AHEAD = 2  # a worker takes in for so many rounds of calls; then each lane has its share


def counted_shares(context: LaneContext) -> CountedShares:
    """Of how many requests of a workflow or tenant a lane counts the number, not only the bytes.

    A tenant's are in all lanes, which together take in for so many rounds of calls.
    """
    limits = context.limits
    ahead = ROUNDS_AHEAD * limits.max_in_flight
    workflow = min(limits.lane_requests_max, ahead) // CROWD_FACTOR
    tenant = min(limits.lane_requests_max, ahead // context.partitions) // CROWD_FACTOR
    return CountedShares(context.tenant_label, max(tenant, 1), max(workflow, 1))


class Backpressure:
    """The one place that pauses and resumes delivery to an open lane."""

    def __init__(self, intake: Intake, limits: Limits, counters: WorkerCounters) -> None:
        self._intake = intake
        self._limits = limits
        self._tally = counters
        self._held = 0
        self._requests = 0
        self._is_stopped = True  # by the lane, until it says from where to go on
        self._is_full = False
        self._counts = False

    @property
    def is_delivering(self) -> bool:
        return not self.is_paused

    def resume_at(self, offset: int) -> None:
        """Let records come from `offset` on, even if it was paused."""
        self._intake.seek(offset)
        self._intake.resume()
        self._is_stopped = self._is_full = False

    def pause(self) -> None:
        self._intake.pause()
        self._is_stopped = True

    def update(self, queue: Queue, backlog_bytes: int, unavailable: Container[str] = ()) -> None:
        """Adjust to what the lane holds and has yet to write, and to what all lanes hold.

        Neither a tenant or workflow with thousands of requests nor thousands of retries that wait
        for hours keep others from being read: the first count for less, and beyond their share only
        by their bytes, the second have a limit of their own. Requests for an `unavailable` profile
        count for less, too.
        """
        counted, pressing = queue.counted.total, queue.pressing(unavailable)
        excess = len(queue) - counted
        crowded_out = max(counted - pressing - queue.held, 0)
        requests = min(pressing + crowded_out // CROWD_FACTOR, counted)
        self._count(queue.held, requests, lanes=1)
        held_bytes = queue.bytes + excess * EXCESS_BYTES
        load = self._load(requests, held_bytes + backlog_bytes)
        if not self.is_paused and load >= 1:
            self._intake.pause()
            self._is_full = True
        elif self._is_full and not self._is_stopped and load <= 1 / 2:
            self._intake.resume()
            self._is_full = False

    @property
    def is_paused(self) -> bool:
        return self._is_stopped or self._is_full

    def reset(self) -> None:
        """The lane holds nothing any more: the worker's totals must not remember it."""
        self._count(0, 0, lanes=0)

    def _load(self, requests: int, held_bytes: int) -> float:
        """How full it is; 1 is full."""
        limits, counters = self._limits, self._tally
        ahead = ROUNDS_AHEAD * limits.max_in_flight
        return max(
            requests / limits.lane_requests_max,
            held_bytes / limits.lane_bytes_max,
            min(counters.requests / ahead, requests / (ahead / max(counters.lanes, 1))),
            1.0 if counters.held >= limits.held_max else 0.0,
        )

    def _count(self, held: int, requests: int, lanes: int) -> None:
        counters = self._tally
        counters.held += held - self._held
        counters.requests += requests - self._requests
        counters.lanes += lanes - self._counts
        self._held, self._requests, self._counts = held, requests, bool(lanes)
