"""A lane's lifecycle: passes events to its state machine (state/machine.py), runs the effects."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

from answerbus.client.diagnosis import describe_error, was_fenced
from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane import opening
from services.worker.lane.context import LaneContext
from services.worker.lane.lane import Lane
from services.worker.lane.outbox import Outbox, lost_because
from services.worker.lane.recovery import open_lane
from services.worker.lane.request_task import LaneRequestTask
from services.worker.lane.state.machine import DRAINS, STAY_S_MAX, Effect, Event, LaneStep, State
from services.worker.lane.state.reopen_backoff import ReopenBackoff
from services.worker.ports.kafka import Intake, RecordTooLarge, Shard
from services.worker.ports.lane import LaneLost, RequestTask
from services.worker.tasks.fair_timeout import FairTimer
from services.worker.tasks.latest_task import CLEAN_UP_S, LatestTask, Work
from services.worker.tasks.loop_time import loop_time

PRESENCE_EVERY_S = 0.5  # a successor waits while it sees these records (opening.SILENCE_S)
RELEASE_S_MAX = 15.0  # for one commit and its clean-up; then the opening that follows releases it

_log = logging.getLogger(__name__)


class Lifecycle:
    """Drives one lane; `handle` is the main path, `stuck` says why it cannot open, for people.

    What takes time is a step in the background (see LatestTask), which ends with an event. A step
    that another has taken the place of has no say any more.
    """

    def __init__(
        self,
        partition: int,
        context: LaneContext,
        intake: Intake,
        new_shard: Callable[[], Shard],
        handle: Callable[[RequestTask], Awaitable[None]],
    ) -> None:
        def work(lane: Lane, lane_request: LaneRequest) -> Awaitable[None]:
            return handle(LaneRequestTask(lane, lane_request))

        self.lane = Lane(partition, context, intake, work, self._on_producer_lost)
        self.stuck: str | None = None
        self._intake = intake
        self._new_shard = new_shard
        self._latest_task = LatestTask()
        self._backoff = ReopenBackoff()
        self._stay: FairTimer | None = None
        self._drained_by = 0.0  # loop time
        self._detached: Outbox | None = None  # of a producer that was lost, to be closed
        self._closed = asyncio.Event()

    def on(self, event: Event) -> None:
        """Something happened to the lane. Returns at once: callbacks of rebalances may not wait."""
        lane, before = self.lane, self.lane.state
        effects = lane.handle_event(event)
        self._detached = lane.detach() or self._detached
        if effects or lane.state is not before:
            self._limit_stay(event)
        for effect in effects:
            if isinstance(effect, LaneStep):
                self._latest_task.start(self._work(effect, event))
            else:
                self._do(effect)

    async def drain(self, limit_s: float) -> None:
        """Stop spending, wait for calls in flight, leave a clean lane behind."""
        self._drained_by = loop_time() + limit_s
        self.on(Event.DRAIN_REQUESTED)
        await self._closed.wait()

    def _do(self, effect: Effect) -> None:
        lane = self.lane
        match effect:
            case Effect.PAUSE:
                lane.backpressure.pause()
            case Effect.RESUME:
                lane.backpressure.resume_at(lane.lane_state.watermark.position)
                lane.pump()
            case Effect.CANCEL_UNCALLED:
                lane.cancel_uncalled()
            case Effect.ABANDON_CALLS:
                lane.abandon_calls()
            case Effect.HALT:
                self._latest_task.cancel()
            case _:
                assert_never(effect)

    def _work(self, step: LaneStep, event: Event) -> Work:
        match step:
            case LaneStep.OPEN:
                return partial(self._open, prove=False)
            case LaneStep.REOPEN:
                return partial(self._open, prove=True, after_s=self._backoff.pause_s(event))
            case LaneStep.REOPEN_FOR_CALLS:
                return partial(self._open_for_calls, self._backoff.pause_s(event))
            case LaneStep.PROVE:
                return self._prove
            case LaneStep.SETTLE_CALLS:
                return self._settle_calls
            case LaneStep.RELEASE:
                return self._release
            case LaneStep.AWAIT_RETURN:
                return self._await_return
            case LaneStep.CLOSE:
                return self._close
            case _:
                assert_never(step)

    async def _open(self, *, prove: bool, after_s: float = 0.0) -> None:
        lane = self.lane
        await asyncio.sleep(after_s)
        await self._close_detached()
        try:
            opened = await open_lane(lane, self._intake, self._new_shard, prove=prove)
        except opening.LaneBlocked as error:
            if self.stuck != str(error):
                _log.error("lane %d blocked: %s", lane.partition, error)
            self.stuck = str(error)
            self._say(Event.OPENING_REFUSED)
        except Exception as error:
            self.stuck = describe_error(error)
            _log.warning("lane %d did not open: %s", lane.partition, self.stuck)
            self._say(Event.OPENING_FAILED)
        else:
            self.stuck = None
            self._backoff.opened()
            lane.open = opened
            self._say(Event.OPENED)

    async def _open_for_calls(self, after_s: float) -> None:
        if self.lane.calls:
            await self._open(prove=True, after_s=after_s)
        else:
            self._say(Event.CALLS_ENDED)

    async def _prove(self) -> None:
        lane = self.lane
        try:
            await lane.opened.prove_ownership(lane.context.clock.now())
        except LaneLost:
            return  # `_on_producer_lost` has handled it
        self._say(Event.PROVED)

    async def _settle_calls(self) -> None:
        """Write now and then meanwhile, so that a new owner waits for us."""
        lane = self.lane
        while lane.tasks:
            await asyncio.wait(list(lane.tasks.values()), timeout=PRESENCE_EVERY_S)
            if lane.tasks:
                lane.opened.prove_ownership(lane.context.clock.now())
        self._say(Event.CALLS_ENDED)

    async def _release(self) -> None:
        """Return what was not used, and say that nothing crashed."""
        opened, now = self.lane.opened, self.lane.context.clock.now()
        opened.release_unused(self.lane.calls.unused, now)
        closing_record = opened.lane_state.own_record.at_close(now)
        opened.outbox.put([closing_record] if closing_record else [], None)
        await asyncio.wait([asyncio.create_task(opened.outbox.flush())], timeout=RELEASE_S_MAX)
        self._say(Event.RELEASED)

    async def _await_return(self) -> None:
        self.lane.recovered = None  # its new owner writes on
        await self._close_detached()
        self.lane.backpressure.reset()
        if not self.lane.calls:
            self._say(Event.CALLS_ENDED)

    async def _close(self) -> None:
        """The next worker that opens the lane writes off what is in flight."""
        lane = self.lane
        lane.recovered = None
        ending = [task for task in (*lane.tasks.values(), lane.reading) if task]
        for task in ending:
            lane.cancellation.of(task)
        if ending:
            await asyncio.wait(ending, timeout=CLEAN_UP_S)
        await self._close_detached()
        lane.backpressure.reset()
        lane.offset_gaps.close()
        self._closed.set()

    async def _close_detached(self) -> None:
        if self._detached:
            await self._detached.close()
            self._detached = None

    def _say(self, event: Event) -> None:
        """The event that ends a step, unless another step has replaced it."""
        if asyncio.current_task() is self._latest_task.current:
            self.on(event)

    def _on_producer_lost(self, error: BaseException) -> None:
        """The producer is gone: calls in flight wait, everything else starts over."""
        lane, reason, is_repeated = self.lane, lost_because(error), False
        if isinstance(error, RecordTooLarge):
            lane.oversized.add(error)
        if lane.open:
            _log.warning("lane %d lost its producer: %s", lane.partition, reason)
            is_repeated = loop_time() < lane.open.stable_at
            self._backoff.lost(was_stable=not is_repeated)
        self.on(Event.FENCED if was_fenced(error) else Event.PRODUCER_LOST)
        if is_repeated and lane.state is State.OPENING:
            self.stuck = reason  # it opens, and cannot write

    def _limit_stay(self, event: Event) -> None:
        """No state but open lasts for ever."""
        if self._stay:
            self._stay.cancel()
            self._stay = None
        limit_s = self._stay_s(event)
        if limit_s is not None:
            self._stay = FairTimer(limit_s, partial(self.on, Event.TIMED_OUT))

    def _stay_s(self, event: Event) -> float | None:
        match self.lane.state:
            case State.OPEN | State.CLOSED:
                return None
            case State.DRAINING | State.DRAINING_ELSEWHERE if event is Event.TIMED_OUT:
                return 2 * RELEASE_S_MAX
            case state if state in DRAINS:
                return max(self._drained_by - loop_time(), 0.0)
            case State.OPENING:
                return STAY_S_MAX[State.OPENING] + self.lane.context.limits.handover_s
            case state:
                return STAY_S_MAX[state]
