"""A lane's lifecycle: opened, suspended by rebalances, reopened after a loss, drained, closed."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from answerbus.client.diagnosis import describe_error, describe_error_for_log
from services.worker.context import Context
from services.worker.fair_timeout import wait_fairly
from services.worker.lane import opening
from services.worker.lane.backpressure import Backpressure
from services.worker.lane.lane import Handle, Lane, State
from services.worker.lane.latest_task import CLEAN_UP_S, LatestTask
from services.worker.lane.offset_gaps import OffsetGaps
from services.worker.lane.outbox import LaneLost
from services.worker.lane.recovery import open_lane
from services.worker.ports import Intake, Shard

REOPEN_FIRST_S = 0.2
REOPEN_MAX_S = 5.0
SHUT_LOOK_S = 10.0  # between two looks whether what keeps a lane shut is gone
ORPHAN_S = 300.0  # for a partition to come back, with the answers that are paid for
PRESENCE_EVERY_S = 0.5  # a successor waits for us while it hears of us (opening.SILENCE_S)

_log = logging.getLogger(__name__)


def new_lifecycle(
    partition: int,
    context: Context,
    intake: Intake,
    new_shard: Callable[[], Shard],
    handle: Handle,
) -> "Lifecycle":
    """A lane with all that belongs to it."""
    backpressure = Backpressure(intake, context.limits, context.counters)
    lane = Lane(
        partition, context, backpressure, OffsetGaps(partition, intake, context.counters), handle
    )
    return Lifecycle(lane, intake, new_shard)


class Lifecycle:
    """Moves one lane through its states; `stuck` says why it cannot open, for people.

    What takes time is a step in the background (see Steps).
    """

    def __init__(self, lane: Lane, intake: Intake, new_shard: Callable[[], Shard]) -> None:
        self.lane = lane
        self.stuck: str | None = None
        self._intake = intake
        self._new_shard = new_shard
        self._assigned = True
        self._is_reassigned = False
        self._draining = False
        self._losses = 0  # since it was last calm
        self._latest_task = LatestTask()
        lane.on_loss = self._on_producer_lost

    def assign(self) -> None:
        """Assigned: open or go on, in the background, since the callback must return at once."""
        lane, was_orphaned = self.lane, self._is_reassigned
        self._assigned, self._is_reassigned = True, False
        if lane.state is State.OPEN or (lane.state is State.SUSPENDED and not lane.leaving):
            lane.enter(State.SUSPENDED)
            self._latest_task.start(self._resume)
        elif lane.state is State.OPENING or (lane.state is State.SUSPENDED and was_orphaned):
            lane.enter(State.OPENING)  # an orphan's state hold tickets whose tasks were ended
            self._latest_task.start(partial(self._open, prove=False))

    def revoke(self) -> None:
        """Revoked: spend nothing new, let calls go on."""
        self._assigned = False
        if self.lane.state is State.OPEN:
            self.lane.enter(State.SUSPENDED)
        elif self.lane.state is not State.CLOSED:
            self._latest_task.cancel()

    def reassign(self) -> None:
        """Assigned elsewhere: commit answers of calls in flight until the new owner fences us."""
        lane = self.lane
        self._is_reassigned = lane.leaving = True
        lane.cancel_uncalled()
        self._latest_task.start(self._finish_calls)

    async def drain(self, limit_s: float) -> None:
        """Stop spending, wait for calls in flight, leave a clean lane behind."""
        lane = self.lane
        self._draining = lane.leaving = True
        if lane.state is State.OPEN:
            lane.backpressure.pause()
            lane.enter(State.SUSPENDED)
        lane.cancel_uncalled()
        if lane.tasks:
            await wait_fairly(list(lane.tasks.values()), limit_s)
        await self._hand_over()

    async def close(self) -> None:
        """End at once; the next owner writes off what is in flight."""
        lane, step = self.lane, self._latest_task.current
        lane.enter(State.CLOSED)
        ending = [task for task in (*lane.tasks.values(), lane.reading) if task]
        for task in ending:
            lane.cancellation.of(task)
        if step and step is not asyncio.current_task():
            self._latest_task.cancel()
            ending.append(step)
        if ending:
            await asyncio.wait(ending, timeout=CLEAN_UP_S)
        await lane.drop_outbox()
        lane.backpressure.reset()
        lane.offset_gaps.close()

    async def _finish_calls(self) -> None:
        """Bring the calls home, and write now and then, so that the new owner waits for them."""
        lane = self.lane
        while lane.tasks and lane.state is State.SUSPENDED:
            await asyncio.wait(list(lane.tasks.values()), timeout=PRESENCE_EVERY_S)
            if lane.outbox and lane.tasks:
                presence = lane.lane_state.ownership_record(lane.context.clock.now())
                lane.outbox.put(presence.records, presence.offset)
        if lane.state is State.OPENING and lane.calls:
            # Without a producer nothing can be settled here, and none may be started for somebody
            # else's partition. It may come back, though, as unopened as it is: what keeps it from
            # being opened here (brokers, rights) keeps its new owner from it as well.
            await lane.drop_outbox()
            lane.backpressure.reset()
            await asyncio.sleep(ORPHAN_S)
        await self._hand_over()

    async def _hand_over(self) -> None:
        """Return what was not used, say that nothing crashed, and close."""
        lane = self.lane
        if lane.outbox and lane.state is State.SUSPENDED:
            lane.release_unused()
            closing_record = lane.lane_state.closing_record(lane.context.clock.now())
            lane.outbox.put([closing_record] if closing_record else [], None)
            await lane.outbox.flush()
        await self.close()

    async def _open(self, *, prove: bool, after_s: float = 0.0) -> None:
        delay_s = REOPEN_FIRST_S
        await asyncio.sleep(after_s)
        while True:
            self.lane.enter(State.OPENING)
            try:
                await open_lane(
                    self.lane,
                    self._intake,
                    self._new_shard,
                    self._on_producer_lost,
                    prove=prove,
                )
                self._continue()
            except opening.LaneBlocked as error:
                if self.stuck != str(error):
                    self.stuck = str(error)
                    _log.error("lane %d stays shut: %s", self.lane.partition, error)
                await self._give_up()
                await asyncio.sleep(SHUT_LOOK_S)
                prove = True
            except Exception as error:
                self.stuck = describe_error(error)
                _log.warning("lane %d did not open: %s", self.lane.partition, self.stuck)
                await asyncio.sleep(delay_s)
                delay_s, prove = min(delay_s * 2, REOPEN_MAX_S), True
            else:
                self.stuck = None
                return

    async def _give_up(self) -> None:
        """Abandon the calls in flight, which can no longer be settled here, and what they hold."""
        for task in self.lane.tasks.values():
            self.lane.cancellation.of(task)
        self.lane.calls.clear()
        self.lane.backpressure.reset()
        await self.lane.drop_outbox()

    def _continue(self) -> None:
        self.lane.leaving = self._draining
        if self._draining:  # only what was called before is still to be settled
            self.lane.enter(State.SUSPENDED)
            return
        self.lane.backpressure.resume_at(self.lane.lane_state.watermark.position)
        self.lane.enter(State.OPEN)
        self.lane.pump()

    async def _resume(self) -> None:
        """The partition came back: unless somebody has fenced us meanwhile, simply go on."""
        lane = self.lane
        try:
            await lane.prove_ownership()
            self._continue()
        except LaneLost:
            pass  # `_on_producer_lost` has already begun to reopen
        except Exception as error:
            _log.exception("lane %d could not go on", self.lane.partition)
            self._on_producer_lost(error)

    def _on_producer_lost(self, error: BaseException) -> None:
        """The producer is gone: calls in flight wait, everything else starts over."""
        lane = self.lane
        if lane.state is State.CLOSED:
            return
        _log.warning("lane %d lost its producer: %s", lane.partition, describe_error_for_log(error))
        if lane.state is State.OPENING:
            return  # whoever opens it hears of it, and tries again
        lane.enter(State.OPENING)
        lane.cancel_uncalled()
        if self._assigned:
            lane.backpressure.pause()
            self._latest_task.start(partial(self._open, prove=True, after_s=self._pace_s()))
        elif self._is_reassigned:
            self._latest_task.start(self._finish_calls)

    def _pace_s(self) -> float:
        """What is lost again and again is reopened ever more slowly."""
        calm = asyncio.get_running_loop().time() >= self.lane.stable_at
        self._losses = 1 if calm else self._losses + 1
        if self._losses == 1:
            return 0.0
        return min(REOPEN_FIRST_S * 2.0 ** min(self._losses - 2, 16), REOPEN_MAX_S)
