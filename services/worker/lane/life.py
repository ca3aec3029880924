"""A lane's life: opened, suspended by rebalances, reopened after a loss, drained, closed."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from answerbus.client.refusal import words_for_log, words_of
from services.worker.context import Context
from services.worker.fair_timeout import wait_fairly
from services.worker.lane import opening
from services.worker.lane.gaps import Gaps
from services.worker.lane.lane import Handle, Lane, State
from services.worker.lane.outbox import LaneLost
from services.worker.lane.reopening import open_once
from services.worker.lane.steps import CLEAN_UP_S, Steps
from services.worker.lane.valve import Valve
from services.worker.ports import Intake, Shard

REOPEN_FIRST_S = 0.2
REOPEN_MAX_S = 5.0
SHUT_LOOK_S = 10.0  # between two looks whether what keeps a lane shut is gone
ORPHAN_S = 300.0  # for a partition to come back, with the answers that are paid for
PRESENCE_EVERY_S = 0.5  # a successor waits for us while it hears of us (opening.SILENCE_S)

_log = logging.getLogger(__name__)


def life_of(
    partition: int,
    context: Context,
    intake: Intake,
    new_shard: Callable[[], Shard],
    handle: Handle,
) -> "Life":
    """A lane with all that belongs to it."""
    valve = Valve(intake, context.limits, context.tally)
    lane = Lane(partition, context, valve, Gaps(partition, intake, context.tally), handle)
    return Life(lane, intake, new_shard)


class Life:
    """Moves one lane through its states; `stuck` says why it cannot open, for people.

    What takes time is a step in the background (see Steps).
    """

    def __init__(self, lane: Lane, intake: Intake, new_shard: Callable[[], Shard]) -> None:
        self.lane = lane
        self.stuck: str | None = None
        self._intake = intake
        self._new_shard = new_shard
        self._assigned = True
        self._orphaned = False
        self._draining = False
        self._losses = 0  # since it was last calm
        self._steps = Steps()
        lane.on_loss = self._lose

    def begin(self) -> None:
        """Assigned: open or go on, in the background, since the callback must return at once."""
        lane, was_orphaned = self.lane, self._orphaned
        self._assigned, self._orphaned = True, False
        if lane.state is State.OPEN or (lane.state is State.SUSPENDED and not lane.leaving):
            lane.enter(State.SUSPENDED)
            self._steps.start(self._regain)
        elif lane.state is State.OPENING or (
            lane.state is State.SUSPENDED and was_orphaned and not self._draining
        ):
            lane.leaving = self._draining
            lane.enter(State.OPENING)  # an orphan's books hold tickets whose tasks were ended
            self._steps.start(partial(self._open, prove=False))

    def suspend(self) -> None:
        """Revoked: spend nothing new, let calls go on."""
        self._assigned = False
        if self.lane.state is State.OPEN:
            self.lane.enter(State.SUSPENDED)
        elif self.lane.state is not State.CLOSED:
            self._steps.halt()

    def orphan(self) -> None:
        """Assigned elsewhere: save the answers of calls in flight while nobody has fenced us."""
        lane = self.lane
        self._orphaned = lane.leaving = True
        lane.cancel_uncalled()
        self._steps.start(self._linger)

    async def drain(self, limit_s: float) -> None:
        """Stop spending, wait for calls in flight, leave a clean lane behind."""
        lane = self.lane
        self._draining = lane.leaving = True
        if lane.state is State.OPEN:
            lane.valve.shut()
            lane.enter(State.SUSPENDED)
        lane.cancel_uncalled()
        if lane.tasks:
            await wait_fairly(list(lane.tasks.values()), limit_s)
        await self._depart()

    async def close(self) -> None:
        """End at once; what is in flight is written off by whoever opens next."""
        lane, step = self.lane, self._steps.current
        lane.enter(State.CLOSED)
        ending = [task for task in (*lane.tasks.values(), lane.reading) if task]
        for task in ending:
            lane.cancellation.of(task)
        if step and step is not asyncio.current_task():
            self._steps.halt()
            ending.append(step)
        if ending:
            await asyncio.wait(ending, timeout=CLEAN_UP_S)
        await lane.drop_outbox()
        lane.valve.count_nothing()
        lane.gaps.close()

    async def _linger(self) -> None:
        """Bring the calls home, and write now and then, so that the new owner waits for them."""
        lane = self.lane
        while lane.tasks and lane.state is State.SUSPENDED:
            await asyncio.wait(list(lane.tasks.values()), timeout=PRESENCE_EVERY_S)
            if lane.outbox and lane.tasks:
                presence = lane.books.presence(lane.context.clock.now())
                lane.outbox.put(presence.records, presence.offset)
        if lane.state is State.OPENING and lane.calls:
            # Without a producer nothing can be settled here, and none may be started for somebody
            # else's partition. It may come back, though, as unopened as it is: what keeps it from
            # being opened here (brokers, rights) keeps its new owner from it as well.
            await lane.drop_outbox()
            lane.valve.count_nothing()
            await asyncio.sleep(ORPHAN_S)
        await self._depart()

    async def _depart(self) -> None:
        """Return what was not used, say that nothing crashed, and close."""
        lane = self.lane
        if lane.outbox and lane.state is State.SUSPENDED:
            lane.give_back()
            parting = lane.books.parting(lane.context.clock.now())
            lane.outbox.put([parting] if parting else [], None)
            await lane.outbox.flush()
        await self.close()

    async def _open(self, *, prove: bool, after_s: float = 0.0) -> None:
        delay_s = REOPEN_FIRST_S
        await asyncio.sleep(after_s)
        while True:
            self.lane.enter(State.OPENING)
            try:
                await open_once(
                    self.lane,
                    self._intake,
                    self._new_shard,
                    self._lose,
                    prove=prove,
                )
                self._go_on()
            except opening.Shut as error:
                if self.stuck != str(error):
                    self.stuck = str(error)
                    _log.error("lane %d stays shut: %s", self.lane.partition, error)
                await self._give_up()
                await asyncio.sleep(SHUT_LOOK_S)
                prove = True
            except Exception as error:
                self.stuck = words_of(error)
                _log.warning("lane %d did not open: %s", self.lane.partition, self.stuck)
                await asyncio.sleep(delay_s)
                delay_s, prove = min(delay_s * 2, REOPEN_MAX_S), True
            else:
                self.stuck = None
                return

    async def _give_up(self) -> None:
        """Nobody can settle the calls in flight here: let them, and what they hold, go."""
        for task in self.lane.tasks.values():
            self.lane.cancellation.of(task)
        self.lane.calls.clear()
        self.lane.valve.count_nothing()
        await self.lane.drop_outbox()

    def _go_on(self) -> None:
        self.lane.leaving = self._draining
        if self._draining:  # only what was called before is still to be settled
            self.lane.enter(State.SUSPENDED)
            return
        self.lane.valve.open_at(self.lane.books.watermark.position)
        self.lane.enter(State.OPEN)
        self.lane.pump()

    async def _regain(self) -> None:
        """The partition came back: unless somebody has fenced us meanwhile, simply go on."""
        lane = self.lane
        try:
            await lane.prove_presence()
            self._go_on()
        except LaneLost:
            pass  # `_lose` has already begun to reopen
        except Exception as error:
            _log.exception("lane %d could not go on", self.lane.partition)
            self._lose(error)

    def _lose(self, error: BaseException) -> None:
        """The producer is gone: whoever has a call in flight waits, everything else starts over."""
        lane = self.lane
        if lane.state is State.CLOSED:
            return
        _log.warning("lane %d lost its producer: %s", lane.partition, words_for_log(error))
        if lane.state is State.OPENING:
            return  # whoever opens it hears of it, and tries again
        lane.enter(State.OPENING)
        lane.cancel_uncalled()
        if self._assigned:
            lane.valve.shut()
            self._steps.start(partial(self._open, prove=True, after_s=self._pace_s()))
        elif self._orphaned:
            self._steps.start(self._linger)

    def _pace_s(self) -> float:
        """What is lost again and again is reopened ever more slowly."""
        calm = asyncio.get_running_loop().time() >= self.lane.calm_at
        self._losses = 1 if calm else self._losses + 1
        if self._losses == 1:
            return 0.0
        return min(REOPEN_FIRST_S * 2.0 ** min(self._losses - 2, 16), REOPEN_MAX_S)
