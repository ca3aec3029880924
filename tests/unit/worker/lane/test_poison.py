"""A request is given up for what it does to its worker, and never for what others do."""

import asyncio
import random
from dataclasses import replace
from typing import Any, Literal

import pytest

from answerbus.private.ledger import WorkInProgress
from answerbus.request import Request
from services.worker.core.attempt.reply import Reply
from services.worker.lane import lane
from services.worker.lane.crash_mark import crash_mark
from services.worker.lane.recovery import STABLE_S
from services.worker.lane.state import suspects
from services.worker.lane.state.machine import State
from services.worker.lane.state.record_admission import admit_record
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Planner
from tests.unit.worker import builders
from tests.unit.worker.builders import answered, workflow_of
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.stage import Stage, now
from tests.unit.worker.lane.supervised import Supervised, ends_in, lane_record
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, context, terminals, until

pytestmark = pytest.mark.wide  # many cases, each of them long

LOSSES = 8
KILLS = 10  # in an hour, say, through no fault of any request
CRASHES_MAX = 20  # until one request is given up
ROOM: dict[str, Any] = {"budget": {"attempts": 100}, "ttl_s": 3_600}
UNORDERED: dict[str, Any] = {"policy": {"ordering": "none"}, "budget": {"attempts": 1_000}}
SLOW_S = 50.0


def good_requests(rig: Supervised, each: int, **more: Any) -> None:
    for partition in range(rig.partitions):
        for number in range(each):
            rig.publish(f"r-{partition}-{number}", partition, number % 5, **ROOM, **more)


@pytest.mark.parametrize("each", [1, 5, 16])
@pytest.mark.parametrize("call_s", [1.0, 45.0])
@on_virtual_time
async def test_only_the_poison_is_given_up_of_all_that_are_in_flight(
    each: int, call_s: float
) -> None:
    rig = Supervised(6, call_s)
    good_requests(rig, each, policy={"ordering": "none"})
    rig.publish("poison", 2, 7, **ROOM)
    await rig.end()
    assert len(rig.crashes) <= CRASHES_MAX


@pytest.mark.parametrize("others", [9, 60])
@on_virtual_time
async def test_the_poison_is_found_among_more_than_can_be_written_down(
    others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in flight beyond that is suspected of nothing, and must not crash it for ever."""
    monkeypatch.setattr(suspects, "SUSPECTS_MAX", 8)
    more = ROOM | {"budget": {"attempts": 1_000}, "policy": {"ordering": "none"}}

    rig = Supervised(1, 10.0)
    for number in range(others):
        rig.publish(f"r-{number}", 0, number % 5, **more)
    rig.publish("poison", 0, 4, **more)  # the last to be called
    await rig.end(7_200)
    assert len(rig.crashes) <= CRASHES_MAX + others // 8


class OtherProfile(Supervised):
    """Requests of the profile `other` take long, and from the first crash on come one by one."""

    def _start(self) -> None:
        super()._start()
        backends = self.worker.context.planner.backends
        assert isinstance(backends, dict)
        facts = replace(backends["default"].facts, name="other")
        limiter = ProfileLimiter(1 if self.crashes else 100)
        backends["other"] = replace(backends["default"], limiter=limiter, facts=facts)

    def _play(self, request_id: str, attempt: int) -> tuple[float, Reply]:
        played = super()._play(request_id, attempt)
        return (SLOW_S, played[1]) if request_id.startswith("other") else played


async def crashed_with_other(suspected: int) -> OtherProfile:
    """A lane whose suspects are as many as can be written down, and wait for their profile."""
    rig = OtherProfile(1, 1.0)
    for number in range(suspected):
        rig.publish(f"other-{number}", 0, number % 5, profile="other", **ROOM | UNORDERED)
    await rig.called_again(suspected)
    rig.crash.set()
    await until(lambda: len(rig.crashes) == 1)
    await until(lambda: rig.open)
    assert len(lane_record(rig.broker)["suspects"]) == min(suspected, suspects.SUSPECTS_MAX)
    return rig


@pytest.mark.parametrize("suspected", [7, 8, 30])
@on_virtual_time
async def test_suspects_whose_profile_is_away_keep_no_other_from_being_served(
    suspected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "SUSPECTS_MAX", 8)
    rig = await crashed_with_other(suspected)
    began = now()
    mine = [f"r-{number}" for number in range(24)]
    for number, name in enumerate(mine):
        rig.publish(name, 0, number % 5, **ROOM | UNORDERED)
    await until(lambda: rig.ended().keys() >= set(mine), 60)
    assert now() - began < 15, "so many side by side as could be suspects, but for one"
    await rig.end(36_000)


@pytest.mark.parametrize("kind", ["poison", "poison-other"])
@pytest.mark.parametrize("others", [0, 5, 30])
@on_virtual_time
async def test_the_poison_is_found_while_suspects_wait_for_their_profile(
    others: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of its crashes is lost to those that had no part in them."""
    monkeypatch.setattr(suspects, "SUSPECTS_MAX", 8)
    profile = {"profile": "other"} if kind == "poison-other" else {}

    rig = await crashed_with_other(12)
    for number in range(others):
        rig.publish(f"r-{number}", 0, number % 5, **ROOM | UNORDERED)
    rig.publish(kind, 0, 4, **ROOM | UNORDERED | profile)
    await rig.end(36_000)
    assert len(rig.crashes) <= CRASHES_MAX + 1 + others // 8


@pytest.mark.parametrize("partition", [0, 1])
@on_virtual_time
async def test_each_of_several_poisons_is_found(partition: int) -> None:
    rig = Supervised(2, 10.0)
    good_requests(rig, 6, policy={"ordering": "none"})
    rig.publish("poison-a", 0, 7, **ROOM)
    rig.publish("poison-b", partition, 8, **ROOM)
    await rig.end()
    assert len(rig.crashes) <= 2 * CRASHES_MAX


@on_virtual_time
async def test_a_poison_that_ends_its_worker_with_its_answer_is_found_too() -> None:
    """Slow ones end it long after others were answered: that is no progress of theirs."""
    rig = Supervised(2, 3.0, after_s=50.0)
    good_requests(rig, 8)
    rig.publish("poison", 0, 7, **ROOM)
    await rig.end(7_200)
    assert len(rig.crashes) <= CRASHES_MAX


@on_virtual_time
async def test_the_worker_goes_on_with_others_while_a_poison_is_under_suspicion() -> None:
    rig = Supervised(2, 1.0)
    rig.publish("poison", 0, 7, **ROOM)
    for number in range(60):
        rig.publish(f"r-{number}", number % 2, number % 5, **ROOM)
        await asyncio.sleep(2)
    late = [name for name in rig.names if name != "poison" and name not in rig.ended()]
    assert len(late) < 30
    await rig.end()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("aimed", [True, False])
@on_virtual_time
async def test_kills_that_no_request_caused_lose_none(seed: int, aimed: bool) -> None:
    """Ten, at any time or each just when calls are in flight."""
    chance = random.Random(seed)

    rig = Supervised(chance.choice((1, 3)), chance.choice((5.0, 45.0)))
    good_requests(rig, chance.choice((1, 6)))
    for _ in range(KILLS):
        if aimed:
            await rig.called_again()
            await asyncio.sleep(chance.choice((0.001, 0.5, 2.0)))
        else:
            await asyncio.sleep(chance.choice((1, 10, 20, 60)))
        rig.crash.set()
        await until(lambda: not rig.crash.is_set())
    await rig.end()
    assert set(rig.ended().values()) == {"result"}


@pytest.mark.parametrize("others", [0, 5])
@on_virtual_time
async def test_what_ends_the_worker_before_its_call_is_found(others: int) -> None:
    """A schema that kills who compiles it: no spend says who was at work."""
    rig = Supervised(3, 20.0)

    def is_poison(_: Planner, request: Request, *__: Any) -> bool:
        return request.request_id == "poison"

    with ends_in(Planner, "plan", is_poison, [rig]):
        good_requests(rig, others)
        rig.publish("poison", 1, 7, **ROOM)
        await rig.end()
    assert len(rig.crashes) <= CRASHES_MAX


@pytest.mark.parametrize("others", [0, 5])
@on_virtual_time
async def test_a_record_that_ends_the_worker_that_reads_it_is_found(others: int) -> None:
    rig = Supervised(3, 20.0)

    def is_poison(value: Any, *_: Any) -> bool:
        return b"poison" in value

    with ends_in(builders, "arrival", is_poison, [rig]):
        good_requests(rig, others)
        rig.broker.publish(b"poison", 1)
        good_requests_of_one = rig.names.copy()
        rig.publish("after", 1, 9, **ROOM)
        await rig.all_done()
    kinds = [kind for name, kind in rig.ended().items() if name not in rig.names]
    assert kinds == ["dead_letter"]
    assert rig.causes() == {"None": "crashed_worker"}
    assert set(rig.ended()) > set(good_requests_of_one)
    assert len(rig.crashes) <= CRASHES_MAX
    rig._supervising.cancel()
    await rig.worker.drain()


@on_virtual_time
async def test_a_bug_in_taking_one_record_in_ends_with_that_record() -> None:
    stage = Stage()
    stage.publish("r-1", "r-2", "r-3")
    await stage.worker.open()

    def broken(lane_state: Any, arrival: Any, now: Any) -> Any:
        if arrival.place.offset == 1:
            raise RuntimeError("a bug")
        return admit_record(lane_state, arrival, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lane, "admit_record", broken)
        await until(lambda: len(terminals(stage.broker)) == 3, 120)
    assert list(terminals(stage.broker).values()).count("dead_letter") == 1
    await until(lambda: stage.broker.offsets[0] == 3)
    await stage.worker.drain()


@on_virtual_time
async def test_a_request_after_losses_in_a_row_is_no_suspect() -> None:
    """Calls that take longer than the broker stays: nothing is finished between two losses."""
    stage = await Stage.calling("r-1", provider=FakeProvider(lambda *_: (50.0, answered())))
    for _ in range(LOSSES):
        stage.broker.faults.append(Fault.REFUSED)
        stage.broker.publish(b"nonsense")
        await stage.worker.until(State.OPENING)
        await stage.worker.until(State.OPEN)
    stage.publish("r-2", workflow_id=workflow_of(0, 1))
    await stage.all_done()

    ended = terminals(stage.broker)
    assert (ended["r-1"], ended["r-2"]) == ("result", "result")
    await stage.worker.drain()


@on_virtual_time
async def test_lanes_that_move_from_worker_to_worker_make_no_suspects() -> None:
    """Each left in peace, if with nothing done: its provider is away."""
    stage = Stage(FakeProvider(lambda *_: (5_000.0, answered())))
    for _ in range(LOSSES):
        await stage.worker.open()
        stage.worker.revoke()
        stage.worker.assign()
        await asyncio.sleep(1)
        await stage.worker.crash()
        stage.worker = Worker(stage.broker, context(stage.provider))
    await stage.worker.open()

    assert stage.worker.lane.lane_state.suspects.found == {}
    assert not stage.worker.lane.opened.is_careful
    await stage.worker.drain()


@on_virtual_time
async def test_a_predecessor_that_still_writes_is_no_crash() -> None:
    """It lost its partition with calls that take too long to wait for."""
    stage = Stage(FakeProvider(lambda *_: (5_000.0, answered())), timeout_s=6_000)
    stage.publish("r-1", ttl_s=80_000, budget={"attempts": 100})
    before = []
    for number in range(4):
        await stage.worker.open()
        await stage.called("r-1")
        before.append(stage.worker)
        before[-1].revoke()
        before[-1].assign()
        stage.worker = Worker(stage.broker, context(stage.provider, f"worker-{number}"))
        await stage.worker.open()
    assert stage.worker.lane.lane_state.suspects.found == {}
    for worker in (*before, stage.worker):
        await worker.crash()


@on_virtual_time
async def test_a_lane_that_recovers_is_quick_again_while_it_is_busy() -> None:
    """After restarts in a row it marks what it does; that ends, however much there is to do."""
    stage = Stage(FakeProvider(lambda *_: (1.0, answered())))
    for _ in range(5):
        await stage.worker.open()
        await stage.worker.crash()
        stage.worker = Worker(stage.broker, context(stage.provider))
    names = [f"r-{n}" for n in range(4_000)]
    stage.publish(*names, budget={"attempts": 9_000}, policy={"ordering": "none"})
    await stage.worker.open()
    assert stage.worker.lane.opened.is_careful
    began = now()
    await until(lambda: stage.provider.most_running > 5, STABLE_S, look_s=1.0)
    await until(lambda: stage.provider.most_running > 80, STABLE_S + 10, look_s=1.0)
    assert now() - began < STABLE_S + 10
    assert not stage.worker.lane.opened.is_careful
    await stage.worker.crash()


@on_virtual_time
async def test_a_lone_call_waits_for_one_mark_of_many_that_are_to_be_made() -> None:
    """Else it keeps all others waiting for as long as they take."""
    stage, marked = Stage(), list[str]()
    await stage.worker.open()

    async def at(what: Literal["preparation", "call"]) -> None:
        async with crash_mark(stage.worker.lane, WorkInProgress(what=what)):
            marked.append(what)

    async with asyncio.TaskGroup() as group:
        for _ in range(9):
            group.create_task(at("preparation"))
        group.create_task(at("call"))
    assert marked.index("call") == 1
    await stage.worker.crash()


@on_virtual_time
async def test_a_suspect_whose_call_ended_is_cleared_and_removed() -> None:
    rig = Supervised(1, 10.0)
    good_requests(rig, 4)
    for _ in range(2):
        await rig.called_again(4)
        rig.crash.set()
    await until(lambda: len(rig.crashes) == 2)
    await until(lambda: rig.open)
    assert len(lane_record(rig.broker)["suspects"]) == 4
    await rig.end()
    assert lane_record(rig.broker)["suspects"] == []
