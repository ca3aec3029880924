"""A lane: one partition's calls and tasks, their scheduling, and its resources while open."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from answerbus.private.ledger import WorkInProgress
from services.telemetry.log_context import clear_log_context, set_log_context
from services.text.escaping import plain_line
from services.worker.core.request.admit import Arrival
from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane.backpressure import Backpressure
from services.worker.lane.cancellable_timeouts import Waits
from services.worker.lane.context import LaneContext
from services.worker.lane.offset_gaps import OffsetGaps
from services.worker.lane.open_lane import OpenLane
from services.worker.lane.opening import RecoveredState
from services.worker.lane.outbox import BatchBytes, Outbox
from services.worker.lane.state.calls import Calls
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.machine import (
    HAS_PRODUCER,
    LEAVING,
    Action,
    Event,
    State,
    StateMachine,
)
from services.worker.lane.state.oversized import Oversized
from services.worker.lane.state.record_admission import admit_record
from services.worker.lane.state.signals import SignalRecord, apply_signals
from services.worker.ports.kafka import Intake, ReadProgress
from services.worker.ports.lane import LaneLost
from services.worker.tasks.latest_task import Cancellation
from services.worker.tasks.loop_time import loop_time

STARTS_PER_PASS = 64  # so that heartbeats and commits are not kept waiting by a burst
ALARM_S_MAX = 5.0  # how late a step of the wall clock can be noticed

_log = logging.getLogger(__name__)


class Wakeup:
    """Calls `pump` once for all that ask for it soon, and `on_alarm` when an alarm goes off."""

    def __init__(self, pump: Callable[[], None], on_alarm: Callable[[], None]) -> None:
        self._pump, self._on_alarm = pump, on_alarm
        self._will_pump = False
        self._alarm: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """In the next turn of the loop: many requests end in one transaction."""
        if not self._will_pump:
            self._will_pump = True
            asyncio.get_running_loop().call_soon(self._pump_now)

    def after(self, delay_s: float) -> None:
        """Unless the alarm goes off sooner: what it looks after is asked for again then."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() + delay_s
        if self._alarm:
            if self._alarm.when() <= due_at:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(due_at, self._go_off)

    def cancel(self) -> None:
        """No alarm goes off any more, until the next is asked for."""
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None

    def _pump_now(self) -> None:
        self._will_pump = False
        self._pump()

    def _go_off(self) -> None:
        self._alarm = None
        self._on_alarm()


class Lane:
    """The objects that live while a worker owns a partition.

    `handle` does the work of one request; `on_loss` starts it over. `isolated` are the suspects
    retried in isolation, `errors` where bugs occurred since the lane was last opened.
    """

    def __init__(
        self,
        partition: int,
        context: LaneContext,
        intake: Intake,
        handle: "Handle",
        on_loss: "OnLoss",
    ) -> None:
        self.partition, self.context = partition, context
        self.backpressure = Backpressure(intake, context.limits, context.counters)
        self.offset_gaps = OffsetGaps(partition, intake, context.counters)
        self.on_loss = on_loss
        self.open: OpenLane | None = None
        self.calls = Calls()
        self.tasks: dict[LaneRequest, asyncio.Task[None]] = {}
        self.waits = Waits()
        self.was_opened = False
        self.recovered: RecoveredState | None = None  # of an opening that did not get to its end
        self.progress: ReadProgress | None = None  # of the one under way
        self.isolated: set[LaneRequest] = set()
        self.errors: list[WorkInProgress] = []
        self.oversized = Oversized()
        self.batch_bytes = BatchBytes()
        self.cancellation = Cancellation()
        self.reading: asyncio.Task[None] | None = None  # see lane/careful_reading.py
        self.entered_at = self.progressed_at = loop_time()
        self.writable = asyncio.Event()  # it has a producer: what was called can be settled
        self.spendable = asyncio.Event()  # and new calls may be made
        self._machine = StateMachine()
        self._failed_openings = 0
        self._handle = handle
        self._wakeup = Wakeup(self.pump, self._on_alarm)

    @property
    def state(self) -> State:
        """Its position; only `handle_event` changes it."""
        return self._machine.state

    @property
    def leaving(self) -> bool:
        """Whether nothing will be spent here again, unless it is opened again."""
        return self.state in LEAVING

    @property
    def opened(self) -> OpenLane:
        """The open lane. Raises LaneLost while there is no producer."""
        if self.open is None:
            raise LaneLost
        return self.open

    @property
    def lane_state(self) -> LaneState:
        """The state of the open lane. Raises LaneLost while there is no producer."""
        return self.opened.lane_state

    def seconds_left(self, lane_request: LaneRequest) -> float:
        """Until the deadline of a request, by the broker's time; negative after it."""
        return lane_request.seconds_left(self.context.clock.now())

    @property
    def failed_openings(self) -> int:
        """Since the lane last got anything done."""
        return self.open.failed_openings if self.open else self._failed_openings

    def handle_event(self, event: Event) -> tuple[Action, ...]:
        """Change state, and with it who may go on; gives what its life has to do."""
        before = self.state
        effects = self._machine.handle_event(event)
        if self.state is not before:
            self.entered_at = loop_time()
        _switch(self.writable, on=self.state in HAS_PRODUCER)
        _switch(self.spendable, on=self.state is State.OPEN)
        if self.state is not State.OPEN:
            self._wakeup.cancel()
        return effects

    def detach(self) -> Outbox | None:
        """Drop what only an open lane has, once it is closed; gives what is to be closed."""
        if self.open is None or self.state in HAS_PRODUCER:
            return None
        self._failed_openings = self.open.failed_openings
        detached, self.open = self.open, None
        return detached.outbox

    def deliver(self, arrivals: Sequence[Arrival]) -> None:
        """Take records in; never waits. Those that come while the lane is not open come again."""
        open_lane = self.open
        if self.state is not State.OPEN or open_lane is None:
            return
        now = self.context.clock.now()
        position, first = open_lane.lane_state.watermark.position, arrivals[0].place.offset
        if first > position:
            self.offset_gaps.record(position, first)
        written, offset = None, position
        try:
            for arrival in arrivals:
                offset = arrival.place.offset
                writing = admit_record(open_lane.lane_state, arrival, now)
                if writing:
                    written = open_lane.put(writing)
        except Exception as error:
            # A bug. What comes after would be taken in behind a gap, so the lane starts over.
            _log.exception("admitting a record of lane %d failed", self.partition)
            self.fail_at(WorkInProgress(what="record", offset=offset), error)
            return
        if written:
            written.add_done_callback(lambda _: self.pump())  # the backlog may have been in the way
        self.pump()

    def on_signals(self, open_lane: OpenLane, signals: Sequence[SignalRecord]) -> bool:
        """Apply results and controls, if the lane is still the one that they were read for.

        Gives whether it is; else they are to be read again, once it is open.
        """
        if self.state is not State.OPEN or self.open is not open_lane:
            return False
        open_lane.put(apply_signals(open_lane.lane_state, signals, self.context.clock.now()))
        self.progressed()
        self.pump()
        return True

    def pump(self) -> None:
        """Start the requests whose turn has come, and update backpressure."""
        open_lane = self.open
        if self.state is not State.OPEN or open_lane is None:
            return
        queue, now = open_lane.lane_state.queue, self.context.clock.now()
        _log_news(open_lane)
        open_lane.leave_careful_mode(now)
        open_lane.pack_ids(now)
        for ending in open_lane.ending(self.waits, now):
            self._start(ending)
        open_lane.write_overdue(now)
        open_lane.release_claims(self.context.planner.unavailable, now)
        self._try_suspects(open_lane, now)
        for _ in range(STARTS_PER_PASS):
            lane_request = queue.take(self.context.limits.max_in_flight)
            if lane_request is None:
                break
            self._start(lane_request)
        else:
            self._wakeup.soon()
        unavailable = self.context.planner.unavailable(queue.profiles)
        self.backpressure.update(queue, open_lane.outbox.backlog_bytes, unavailable)
        moment = open_lane.next_moment(now)
        wait_s = (moment - now).total_seconds() if moment else ALARM_S_MAX
        self._wakeup.after(min(max(wait_s, 0.0), ALARM_S_MAX))

    def progressed(self) -> None:
        """Something was done that brings a request nearer to its end."""
        self.progressed_at = loop_time()

    def fail_at(self, what: WorkInProgress, error: Exception) -> None:
        """A bug: the lane starts over, and remembers what it was at."""
        self.errors.append(what)
        self.on_loss(error)

    def begin_again(self, why: Exception) -> None:
        """The requests topic was created again: the lane starts over, from its beginning."""
        for lane_request in self.calls:
            lane_request.lose_record()
        self.on_loss(why)

    def cancel_uncalled(self) -> None:
        """End the tasks whose call has not begun: their requests come again."""
        if self.reading:
            self.cancellation.of(self.reading)
        for lane_request, task in self.tasks.items():
            if lane_request not in self.calls:
                self.cancellation.of(task)

    def abandon_calls(self) -> None:
        """Abandon the calls in flight, which can no longer be settled here, and what they hold."""
        for task in self.tasks.values():
            self.cancellation.of(task)
        self.calls.abandon()
        self.backpressure.reset()

    def _start(self, lane_request: LaneRequest) -> None:
        if not self.tasks:
            self.progressed()  # before that there was nothing to do
        task = asyncio.create_task(self._work_on(lane_request))
        self.tasks[lane_request] = task
        task.add_done_callback(lambda ended: self._ended(lane_request, ended))

    async def _work_on(self, lane_request: LaneRequest) -> None:
        """Its log lines name the request; one whose lane was lost comes again with the next."""
        request, trace = lane_request.request, lane_request.incoming_trace
        set_log_context(request.request_id, request.workflow_id, trace.trace_id)
        try:
            await self._handle(self, lane_request)
        except LaneLost:
            pass
        except Exception as error:
            # A bug. The request is tried again a few times, so this has an end.
            _log.exception("handling a request failed")
            clear_log_context()
            self._failed(lane_request, error)

    def _failed(self, lane_request: LaneRequest, error: Exception) -> None:
        self.calls.failed(lane_request)
        self.fail_at(WorkInProgress(what="preparation", **lane_request.key._asdict()), error)

    def _ended(self, lane_request: LaneRequest, task: "asyncio.Task[None]") -> None:
        if self.tasks.get(lane_request) is task:  # a retry that was due at once may run already
            del self.tasks[lane_request]
            self.isolated.discard(lane_request)
        self._wakeup.soon()

    def _try_suspects(self, open_lane: OpenLane, now: datetime) -> None:
        """Once the others have had some time, let some of those run that are held back."""
        for lane_request in [] if self.isolated else open_lane.take_suspects(now):
            self.isolated.add(lane_request)
            self._start(lane_request)

    def _on_alarm(self) -> None:
        open_lane, now = self.open, self.context.clock.now()
        if open_lane and open_lane.lane_state.own_record.is_old(now):
            open_lane.prove_ownership(now)
        self.pump()


Handle = Callable[[Lane, LaneRequest], Awaitable[None]]
OnLoss = Callable[[BaseException], None]


def _switch(event: asyncio.Event, *, on: bool) -> None:
    (event.set if on else event.clear)()


def _log_news(open_lane: OpenLane) -> None:
    for key in open_lane.lane_state.budgets.take_news():
        _log.warning("80 %% of the budget %s of %s are used", plain_line(key.budget), key.window)
