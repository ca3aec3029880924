"""Bugs, crashes, deadlines and odd records: each ends with what caused it, and the lane goes on."""

import asyncio
from typing import Any

import pytest

from answerbus.envelope import encode
from answerbus.event import key
from answerbus.private.ledger import Skipped
from answerbus.topics import DEAD_LETTERS, REQUESTS, RETRIES
from answerbus.wire import bytes_digest
from services.worker.core.attempt.reply import Reply, TimedOut
from services.worker.lane import lane
from services.worker.lane.state.machine import State
from services.worker.lane.state.record_admission import admit_record
from tests.unit.worker.builders import NOW, answered, workflow_of
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.stage import Stage, now
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import (
    FakeProvider,
    Worker,
    audit,
    context,
    done,
    events,
    publish,
    terminals,
    until,
)


@on_virtual_time
async def test_a_bug_in_handling_one_request_ends_with_that_request() -> None:
    stage = Stage()
    planner = stage.context.planner
    plan = planner.plan

    def broken(request: Any, prepared: Any = None) -> Any:
        if request.request_id == "poison":
            raise RuntimeError("a bug")
        return plan(request, prepared)

    planner.plan = broken  # type: ignore[method-assign]
    stage.publish("poison")
    stage.publish(*(f"r-{n}" for n in range(5)), workflow_id=workflow_of(0, 1))
    await stage.worker.open()
    began = now()
    await stage.end()

    assert now() - began > 2, "it is opened ever more slowly"

    dead_letters = events(stage.broker, DEAD_LETTERS)
    assert [dead_letter["request_id"] for dead_letter in dead_letters] == ["poison"]
    assert dead_letters[0]["cause"]["kind"] == "crashed_worker"
    assert len(stage.worker.shards) < 20


@on_virtual_time
async def test_a_bug_in_taking_a_record_in_leaves_no_gap() -> None:
    stage = Stage()
    stage.publish("r-1", "r-2", "r-3")
    await stage.worker.open()
    raised: list[Any] = []

    def broken(lane_state: Any, arrival: Any, now: Any) -> Any:
        if arrival.place.offset == 1 and not raised:
            raised.append(arrival)
            raise RuntimeError("a bug")
        return admit_record(lane_state, arrival, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lane, "admit_record", broken)
        await stage.all_done()
    await stage.end()

    assert raised
    assert stage.broker.offsets[0] == 3


@on_virtual_time
async def test_a_lane_without_crashes_has_no_suspects() -> None:
    """Restarts in a row while there was nothing to do are no request's fault."""
    stage = Stage()
    for _ in range(8):
        await stage.worker.open()
        await stage.worker.crash()
        stage.worker = Worker(stage.broker, context(stage.provider))
    await stage.worker.open()
    assert stage.worker.lane.opened.is_careful
    await asyncio.sleep(70)
    assert not stage.worker.lane.opened.is_careful
    stage.publish("r-1")
    await stage.end()

    assert terminals(stage.broker) == {"r-1": "result"}


@on_virtual_time
async def test_unreadable_state_keeps_the_lane_closed_and_says_so() -> None:
    stage = Stage()
    stage.broker.log(RETRIES).append(b"r-9", b"{}", (), stage.broker.clock.now())
    stage.publish("r-1")
    stage.worker.assign(0)
    await until(lambda: stage.worker.lifecycle.stuck is not None)
    await asyncio.sleep(60)

    assert stage.worker.lane.state is State.OPENING
    assert all(shard.is_closed for shard in stage.worker.shards[:-1])
    assert stage.broker.epochs[0] == 0, "nobody was fenced"

    skip = Skipped(
        offset=0, digest=bytes_digest(b"{}"), problem="?", by="ops", reason="why", at=NOW
    )
    log = stage.broker.log(RETRIES)
    log.append(key(skip).encode(), encode(skip).value, (), stage.broker.clock.now())
    await stage.worker.until(State.OPEN)
    assert stage.worker.lifecycle.stuck is None
    await stage.all_done()
    await stage.worker.drain()


@on_virtual_time
async def test_a_lane_that_cannot_open_again_holds_no_slots() -> None:
    stage = await Stage.calling(
        "r-1", provider=FakeProvider(lambda *_: (50.0, answered())), slots=1
    )
    stage.broker.log(RETRIES).append(b"r-9", b"{}", (), stage.broker.clock.now())
    stage.broker.faults.append(Fault.REFUSED)
    stage.broker.publish(b"nonsense")
    await until(lambda: stage.worker.lifecycle.stuck is not None)
    await asyncio.sleep(1)

    assert (stage.context.slots.reserved, stage.context.slots.calling) == (0, 0)
    await stage.worker.drain()


@on_virtual_time
async def test_requests_deleted_before_they_were_read_are_reported() -> None:
    stage = Stage()
    stage.publish("gone", "r-1")
    stage.broker.offsets[0] = 0
    del stage.broker.log(REQUESTS).records[0]
    stage.names.remove("gone")
    await stage.worker.open()
    await stage.end()

    assert stage.context.counters.lost_to_retention == 1


@on_virtual_time
async def test_requests_deleted_before_an_open_lane_came_to_them_are_reported() -> None:
    """A client that is told that its offset is gone goes on at the next that is there, silently."""
    stage = Stage()
    await stage.worker.open()
    stage.publish("r-1")
    await stage.all_done()
    log = stage.broker.log(REQUESTS)
    stage.worker.intakes[0].pause()
    stage.publish("gone-1", "gone-2", "r-2")
    log.records = [r for r in log.records if b"gone" not in (r.value or b"")]
    stage.names = ["r-1", "r-2"]
    del log.records[0]  # retention deletes from the front
    stage.worker.intakes[0].resume()
    await stage.all_done()
    await until(lambda: stage.context.counters.lost_to_retention > 0)
    await stage.worker.drain()

    assert stage.context.counters.lost_to_retention == 2


@on_virtual_time
async def test_holes_that_transactions_leave_are_no_loss() -> None:
    stage = Stage()
    await stage.worker.open()
    for name in ("r-1", "r-2", "r-3"):
        stage.publish(name)
        stage.broker.log(REQUESTS).end += 1  # the marker of upstream's transaction
        await stage.all_done()
    await asyncio.sleep(60)
    await stage.end()

    assert stage.context.counters.lost_to_retention == 0


@on_virtual_time
async def test_nothing_is_answered_twice_after_days_without_a_worker() -> None:
    """What was finished beyond the committed offset is known for as long as it may come again."""
    script = {"slow": (10_000.0, answered()), "quick": (1.0, answered())}
    stage = Stage(FakeProvider(lambda name, _: script[name]), timeout_s=3_600)
    stage.publish("slow")
    stage.publish("quick", workflow_id=workflow_of(0, 1))
    await stage.worker.open()
    await until(lambda: done(stage.broker, ["quick"]))
    await stage.worker.crash()
    await asyncio.sleep(3 * 86_400)
    stage.worker = Worker(stage.broker, context(stage.provider))
    await stage.worker.open()
    await stage.end()

    assert terminals(stage.broker) == {"slow": "dead_letter", "quick": "result"}


@on_virtual_time
async def test_a_call_that_runs_past_the_deadline_is_cut_in_time() -> None:
    stage = Stage(FakeProvider(lambda *_: (3_000.0, answered())), timeout_s=3_000)
    stage.publish("r-1", ttl_s=30)
    await stage.worker.open()
    began = now()
    await stage.all_done()

    assert 30 < now() - began < 30 + 60
    await stage.end()


@on_virtual_time
async def test_deadlines_are_kept_by_those_that_wait_for_whatever_reason() -> None:
    stage = Stage(FakeProvider(lambda *_: (20.0, answered())), slots=1)
    stage.publish("running", "behind", ttl_s=30)
    stage.publish("no-slot", workflow_id=workflow_of(0, 1), ttl_s=10)
    stage.publish("behind-2", workflow_id=workflow_of(0, 1), ttl_s=10)
    await stage.worker.open()
    began = now()
    await until(lambda: done(stage.broker, ["no-slot", "behind-2"]))

    assert 9 < now() - began < 12
    await stage.end()
    assert terminals(stage.broker)["running"] == "result"


@on_virtual_time
async def test_a_provider_that_cancels_its_own_call_blocks_no_other() -> None:
    stage = Stage(
        FakeProvider(lambda _, n: (1.0, asyncio.CancelledError() if n == 1 else answered()))
    )
    stage.publish("r-1", "r-2")
    await stage.worker.open()
    await stage.end()

    assert stage.outcomes() == ["retry", "result", "retry", "result"]


@on_virtual_time
async def test_a_misrouted_request_is_answered_where_it_belongs() -> None:
    stage = Stage()
    theirs = workflow_of(1)
    publish(stage.broker, "r-1", theirs)
    record = stage.broker.log(REQUESTS, 1).records.pop()
    stage.broker.log(REQUESTS, 1).end = 0
    stage.broker.publish(record.value or b"", 0)
    stage.worker.assign(0, 1)
    await until(lambda: done(stage.broker, ["r-1"], partition=1))
    await stage.worker.drain()

    assert terminals(stage.broker, 0) == {}
    assert stage.context.counters.forwarded == 1
    audit(stage.broker, stage.provider, partition=1)


@on_virtual_time
async def test_a_retry_that_is_due_at_once_is_known_to_its_lane() -> None:
    """It may begin before the task of the attempt before has ended; nobody could end it else."""
    script: dict[int, tuple[float, Reply]] = {1: (1.0, TimedOut(1.0)), 2: (1.0, answered())}
    stage = Stage(FakeProvider(lambda _, attempt: script[attempt]), jitter=0.0)
    stage.publish(*(f"r-{n}" for n in range(20)), policy={"ordering": "none"})
    await stage.worker.open()
    await until(lambda: len(stage.provider.calls) == 40)

    assert set(stage.worker.lane.tasks) == set(stage.worker.lane.calls)
    await stage.end()
