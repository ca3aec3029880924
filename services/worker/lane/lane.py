"""A lane: one partition's state, outbox and tasks."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto

from answerbus.ledger import Watched
from services.telemetry.log_context import clear_log_context, set_log_context
from services.worker.context import Context
from services.worker.core.account import Spend
from services.worker.core.admit import Arrival
from services.worker.core.ticket import Ticket
from services.worker.lane.backpressure import Backpressure
from services.worker.lane.lane_record_refresh import refreshed_lane_record
from services.worker.lane.lane_state import LaneState
from services.worker.lane.latest_task import Cancellation
from services.worker.lane.offset_gaps import OffsetGaps
from services.worker.lane.outbox import LaneLost, Outbox
from services.worker.lane.suspects import SPARE_ATTEMPTS

STARTS_PER_PASS = 64  # so that heartbeats and commits are not kept waiting by a burst
ALARM_S_MAX = 5.0  # how late a step of the wall clock can be noticed

_log = logging.getLogger(__name__)


class State(Enum):
    """Where a lane stands; lane/lifecycle.py moves it."""

    OPENING = auto()
    OPEN = auto()
    SUSPENDED = auto()  # revoked or draining: calls go on, nothing new is spent
    CLOSED = auto()


class Lane:
    """What is alive while a worker owns a partition.

    `calls` are the spends whose provider call has begun: they outlive a reopening. `unused` are
    those whose call has not, also where nobody knows whether they are committed. `handle` does the
    work of one ticket; `on_loss` is told that the lane must start over. `trial` are the suspects
    that are tried just now, `errors` what bugs were found at since the lane was last opened.
    """

    lane_state: LaneState
    outbox: Outbox | None = None

    def __init__(
        self,
        partition: int,
        context: Context,
        backpressure: Backpressure,
        gaps: OffsetGaps,
        handle: "Handle",
    ) -> None:
        self.partition = partition
        self.context = context
        self.backpressure, self.offset_gaps = backpressure, gaps
        self.state = State.OPENING
        self.writable = asyncio.Event()  # an outbox is there: what was called can be settled
        self.spendable = asyncio.Event()  # and new calls may be made
        self.leaving = False  # nothing will be spent here again, unless it is opened anew
        self.calls: dict[Ticket, Spend] = {}
        self.unused: dict[Spend, Ticket] = {}
        self.tasks: dict[Ticket, asyncio.Task[None]] = {}
        self.was_opened = False
        self.is_careful = False  # what may end the worker is marked before (lane/crash_mark.py)
        self.trial: set[Ticket] = set()
        self.errors: list[Watched] = []
        self.cancellation = Cancellation()
        self.reading: asyncio.Task[None] | None = None  # see lane/careful_reading.py
        self.stable_at = self.trials_from = 0.0  # loop time
        self.entered_at = self.progressed_at = _now()
        self.on_loss: Callable[[BaseException], None]
        self._handle = handle
        self._alarm: asyncio.TimerHandle | None = None

    def enter(self, state: State) -> None:
        """Change state, and with it who may go on."""
        if state is not self.state:
            self.entered_at = _now()
        self.state = state
        _switch(self.writable, on=state in {State.OPEN, State.SUSPENDED})
        _switch(self.spendable, on=state is State.OPEN)
        if self._alarm and state is not State.OPEN:
            self._alarm.cancel()

    def deliver(self, arrivals: Sequence[Arrival]) -> None:
        """Take records in; never waits. Those that come while the lane is not open come again."""
        if self.state is not State.OPEN or self.outbox is None:
            return
        now = self.context.clock.now()
        position, first = self.lane_state.watermark.position, arrivals[0].place.offset
        if first > position:
            self.offset_gaps.record(position, first)
        written, offset = None, position
        try:
            for arrival in arrivals:
                offset = arrival.place.offset
                writing = self.lane_state.arrive(arrival, now)
                if writing:
                    written = self.outbox.put(writing.records, writing.offset)
        except Exception as error:
            # A bug. What comes after would be taken in behind a gap, so the lane starts over.
            _log.exception("taking a record of lane %d in failed", self.partition)
            self.fail_at(Watched(what="record", offset=offset), error)
            return
        if written:
            written.add_done_callback(lambda _: self.pump())  # the backlog may have been in the way
        self.pump()

    def pump(self) -> None:
        """Start the tickets whose turn has come, and update backpressure."""
        if self.state is not State.OPEN:
            return
        queue, now = self.lane_state.queue, self.context.clock.now()
        self._clear_caution()
        for expired in queue.wake(now):
            self._start(expired)
        self._try_suspects()
        for _ in range(STARTS_PER_PASS):
            ticket = queue.take(self.context.limits.max_in_flight)
            if ticket is None:
                break
            self._start(ticket)
        else:
            asyncio.get_running_loop().call_soon(self.pump)
        backlog_bytes = self.outbox.backlog_bytes if self.outbox else 0
        unavailable = self.context.planner.unavailable(queue.profiles)
        self.backpressure.update(queue, backlog_bytes, unavailable)
        moment = queue.next_moment()
        wait_s = (moment - now).total_seconds() if moment else ALARM_S_MAX
        self._set_alarm(min(max(wait_s, 0.0), ALARM_S_MAX))

    def progressed(self) -> None:
        """Something was done that brings a request nearer to its end."""
        self.progressed_at = _now()

    def fail_at(self, what: Watched, error: Exception) -> None:
        """A bug: the lane starts over, and remembers what it was at."""
        self.errors.append(what)
        self.on_loss(error)

    def cancel_uncalled(self) -> None:
        """End the tasks whose call has not begun: their tickets come again."""
        if self.reading:
            self.cancellation.of(self.reading)
        for ticket, task in self.tasks.items():
            if ticket not in self.calls:
                self.cancellation.of(task)

    def release_unused(self) -> None:
        """Release the spends whose call will never begin, now that their tasks have been ended."""
        for spend, ticket in self.unused.items():
            if self.outbox and self.lane_state.ledger.holds(spend):
                writing = self.lane_state.release(ticket, spend, self.context.clock.now())
                self.outbox.put(writing.records, writing.offset, apart=True)

    async def prove_ownership(self) -> None:
        """Write what only the rightful owner of the partition can. Raises LaneLost."""
        if self.outbox is None:
            raise RuntimeError("a lane has an outbox once it was opened")
        presence = self.lane_state.ownership_record(self.context.clock.now())
        await self.outbox.put(presence.records, presence.offset)

    async def drop_outbox(self) -> None:
        """Stop writing; what was queued is lost."""
        outbox = self.outbox
        if outbox:
            await outbox.close()
            if self.outbox is outbox:
                self.outbox = None

    def _start(self, ticket: Ticket) -> None:
        if not self.tasks:
            self.progressed()  # before that there was nothing to do
        task = asyncio.create_task(self._work(ticket))
        self.tasks[ticket] = task
        task.add_done_callback(lambda ended: self._ended(ticket, ended))

    async def _work(self, ticket: Ticket) -> None:
        request, trace = ticket.request, ticket.incoming_trace
        set_log_context(request.request_id, request.workflow_id, trace.trace_id)
        try:
            await self._handle(self, ticket)
        except LaneLost:
            pass  # the ticket comes again when the lane is open again
        except Exception as error:
            # A bug. The request is tried again a few times, so this has an end.
            _log.exception("handling a request of lane %d failed", self.partition)
            self.calls.pop(ticket, None)
            clear_log_context()
            self.fail_at(Watched(what="preparation", request_id=ticket.request.request_id), error)

    def _ended(self, ticket: Ticket, task: "asyncio.Task[None]") -> None:
        if self.tasks.get(ticket) is task:  # a retry that was due at once may run already
            del self.tasks[ticket]
            self.trial.discard(ticket)
        self.pump()

    def _clear_caution(self) -> None:
        """A lane that has lasted for a while was not ended by what it holds, busy or not."""
        if self.outbox is None or _now() < self.stable_at:
            return
        self.is_careful = False
        if progress := self.lane_state.progress_record(self.context.clock.now()):
            self.outbox.put([progress], None)

    def _try_suspects(self) -> None:
        """Once the others have had some time, let some of those run that are held back."""
        queue, suspects = self.lane_state.queue, self.lane_state.suspects
        if self.trial or _now() < self.trials_from:
            return
        for request_id in suspects.next_tried(queue.apart(), self._can_spare):
            ticket = queue.take_apart(request_id)
            self.trial.add(ticket)
            self._start(ticket)

    def _can_spare(self, request_id: str) -> bool:
        """Whether its account could pay for one more crash."""
        request = self.lane_state.queue.tickets[request_id].request
        account = self.lane_state.ledger.account(request, self.context.clock.now())
        left = account.limit.attempts - account.charged[0] - len(account.in_flight)
        return left >= SPARE_ATTEMPTS

    def _set_alarm(self, delay_s: float) -> None:
        if self._alarm:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._on_alarm)

    def _on_alarm(self) -> None:
        now = self.context.clock.now()
        if self.outbox and (renewed := refreshed_lane_record(self.lane_state, now)):
            self.outbox.put(renewed.records, renewed.offset)
        self.pump()


Handle = Callable[[Lane, Ticket], Awaitable[None]]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _switch(event: asyncio.Event, *, on: bool) -> None:
    if on:
        event.set()
    else:
        event.clear()
