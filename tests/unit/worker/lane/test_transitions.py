"""Every row of the table, met by a lane: after each of them all ends well once trouble is over."""

import asyncio

import pytest
from aiokafka.errors import ProducerFenced

from answerbus.topics import RETRIES
from services.worker.lane.state.machine import DRAINS, STAY_S_MAX, TRANSITIONS, Event, State
from tests.unit.worker.builders import NOW, answered, workflow_of
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.noted import noted
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, audit, context, until

pytestmark = pytest.mark.wide  # many cases, each of them long

CALL_S = 20.0
DRAIN_S = 40.0
NEVER_S = 80_000
HANDOVER_S = 30.0
GARBAGE = b"{}"
WITHOUT_CALLS = {
    (State.ABANDONED, Event.CALLS_ENDED),
    (State.DRAINING_REOPENING, Event.CALLS_ENDED),
}


ENDS_BEFORE = {State.RESUMING}  # its commit has a limit of its own


class TransitionStage(Stage):
    """A lane that is brought into a state, and to which something happens then."""

    def __init__(self, *, is_idle: bool = False, call_s: float = CALL_S) -> None:
        script = FakeProvider(lambda *_: (call_s, answered()))
        super().__init__(script, timeout_s=NEVER_S)
        self._is_idle = is_idle
        self._is_draining = False

    @property
    def state(self) -> State:
        return self.worker.lane.state

    async def enter(self, state: State) -> None:  # noqa: C901  # one line for each
        """With a call in flight and a request that was not called, unless it is idle."""
        if not self._is_idle:
            self.publish("r-1", ttl_s=NEVER_S)
        await self.worker.open()
        if not self._is_idle:
            await self.called("r-1")
            self.publish("r-2", workflow_id=workflow_of(0, 1))
        match state:
            case State.OPENING:
                self._lose_for_long()
            case State.OPEN | State.CLOSED:
                pass
            case State.SUSPENDED:
                self.worker.revoke()
            case State.RESUMING:
                self.worker.revoke()
                self.broker.hangs = True
                self.worker.assign(0)
            case State.UNASSIGNED:
                self.worker.revoke()
                self._lose_for_long()
            case State.HANDING_OVER:
                self.worker.revoke()
                self.worker.assign()
            case State.ABANDONED:
                self.worker.revoke()
                self.worker.assign()
                self._lose_for_long()
            case State.DRAINING:
                await self._drain()
            case State.DRAINING_ELSEWHERE:
                self.worker.revoke()
                self.worker.assign()
                await self._drain()
            case State.DRAINING_REOPENING:
                self._lose_for_long()
                await self._drain()
        assert self.state is state

    async def happens(self, event: Event) -> None:  # noqa: C901  # one line for each
        match event:
            case Event.ASSIGNED:
                self.worker.assign(0)
            case Event.REVOKED:
                self.worker.lifecycle.on(
                    Event.REVOKED
                )  # also of what is not ours, by renewal.renew
            case Event.ASSIGNED_ELSEWHERE:
                self.worker.assign()
            case Event.DRAIN_REQUESTED:
                await self._drain()
            case Event.PRODUCER_LOST:
                self._lose()
            case Event.FENCED:
                self.worker.lane.on_loss(ProducerFenced())
            case Event.TIMED_OUT:
                self.worker.lifecycle.on(Event.TIMED_OUT)
            case Event.OPENING_FAILED:
                self.broker.unreachable = True
                self.broker.hangs = False
            case Event.OPENING_REFUSED:
                self.broker.log(RETRIES).append(b"r-9", GARBAGE, (), NOW)
                self.broker.hangs = False
            case Event.OPENED | Event.PROVED | Event.CALLS_ENDED | Event.RELEASED:
                self.broker.hangs = False

    async def end_well(self) -> None:
        """Trouble is over, and the group decides again whose the partition is."""
        self.broker.hangs = self.broker.unreachable = False
        retries = self.broker.log(RETRIES)
        retries.records = [record for record in retries.records if record.value != GARBAGE]
        if not self._is_draining:
            self.worker.assign(0)
            await self.worker.until(State.OPEN)
        await self.worker.drain()
        assert self.context.slots.reserved == self.context.counters.lanes == 0
        successor = Worker(self.broker, context(self.provider, "other"))
        successor.assign(0)
        await self.all_done()
        await successor.drain()
        audit(self.broker, self.provider)

    async def give_up(self) -> None:
        self.broker.hangs = False
        await self.worker.drain(0.1)

    async def _drain(self) -> None:
        self._is_draining = True
        self._draining = asyncio.create_task(self.worker.membership.drain(DRAIN_S))
        await asyncio.sleep(0)  # it begins
        await asyncio.sleep(0)  # and its lanes with it

    def _lose_for_long(self) -> None:
        self.broker.hangs = True
        self._lose()

    def _lose(self) -> None:
        self.worker.lane.on_loss(ConnectionError("the broker is away"))


@pytest.mark.parametrize("pair", TRANSITIONS, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
@on_virtual_time
async def test_a_lane_that_comes_to_a_row_ends_well(pair: tuple[State, Event]) -> None:
    state, event = pair
    scene = TransitionStage(is_idle=pair in WITHOUT_CALLS)
    with noted() as met:
        await scene.enter(state)
        await scene.happens(event)
        await until(lambda: pair in met)
    await scene.end_well()


@pytest.mark.parametrize(
    "state",
    [
        *(state for state in STAY_S_MAX if state not in ENDS_BEFORE),
        *sorted(DRAINS, key=lambda state: state.name),
    ],
)
@on_virtual_time
async def test_no_state_lasts_longer_than_it_may(state: State) -> None:
    scene = TransitionStage(call_s=NEVER_S)
    limit_s = STAY_S_MAX.get(state, DRAIN_S) + HANDOVER_S
    with noted() as met:
        await scene.enter(state)
        await until(lambda: (state, Event.TIMED_OUT) in met, limit_s + 1, look_s=1.0)
    await scene.give_up()


@on_virtual_time
async def test_an_opening_that_hangs_for_ever_is_begun_again() -> None:
    stage = Stage()
    stage.publish("r-1")
    stage.broker.hangs = True
    stage.worker.assign(0)
    await until(lambda: len(stage.worker.shards) == 1)
    ignores_cancellation = stage.worker.shards[0]
    ignores_cancellation._broker = Broker()  # it will never hear of the other
    ignores_cancellation._broker.hangs = True
    stage.broker.hangs = False
    await stage.worker.until(State.OPEN, STAY_S_MAX[State.OPENING] + HANDOVER_S + 1)
    await stage.end()

    assert len(stage.worker.shards) == 2
