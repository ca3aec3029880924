"""A lane's life: what rebalances, lost producers and drains do to requests and their money."""

import asyncio
from typing import Any

import pytest

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, REQUESTS, RETRIES
from services.worker.core.reply import Rejected, Reply, Throttled, TimedOut
from services.worker.lane.lane import State
from tests.unit.builders import answered, workflow_of
from tests.unit.lane.fakes import Broker, Fault
from tests.unit.lane.virtual import VirtualLoop, run
from tests.unit.lane.world import (
    FakeProvider,
    Worker,
    audit,
    context,
    done,
    events,
    final_account,
    publish,
    terminals,
    until,
)


class Stage:
    """One broker, one provider, one worker, and the requests published so far."""

    def __init__(self, provider: FakeProvider | None = None, **settings: Any) -> None:
        self.broker, self.provider = Broker(), provider or FakeProvider()
        self.context = context(self.provider, **settings)
        self.worker = Worker(self.broker, self.context)
        self.names: list[str] = []

    def publish(self, *names: str, **more: Any) -> None:
        for name in names:
            publish(self.broker, name, **more)
            self.names.append(name)

    async def called(self, name: str) -> None:
        await until(lambda: self.provider.made_for(name) != [])

    async def all_done(self, limit_s: float = 600.0) -> None:
        await until(lambda: done(self.broker, self.names), limit_s)

    async def end(self) -> None:
        """Leave, and look whether everything was right."""
        await self.all_done()
        await self.worker.drain()
        audit(self.broker, self.provider)

    def outcomes(self) -> list[str]:
        return [attempt["outcome"] for attempt in events(self.broker, ATTEMPTS)]


def now() -> float:
    return asyncio.get_running_loop().time()


def test_requests_are_answered_in_order_and_the_worker_leaves() -> None:
    async def main() -> None:
        stage = Stage()
        stage.publish(*(f"r-{number}" for number in range(5)))
        await stage.worker.open()
        await stage.end()

        assert set(terminals(stage.broker).values()) == {"result"}
        assert stage.provider.most_running == 1, "they are of one workflow"
        assert stage.broker.offsets[0] == 5
        assert stage.worker.lane.state is State.CLOSED

    run(main())


@pytest.mark.parametrize("fault", Fault)
def test_an_answer_is_published_once_and_paid_once_whatever_becomes_of_its_commit(
    fault: Fault,
) -> None:
    async def main() -> None:
        stage = Stage()
        stage.publish("r-1", budget={"attempts": 1})
        await stage.worker.open()
        await stage.called("r-1")
        stage.broker.faults.append(fault)
        await stage.end()

        assert (stage.outcomes(), stage.provider.made_for("r-1")) == (["result"], [1])
        assert len(stage.worker.shards) == 2, "it was opened again"

    run(main())


@pytest.mark.parametrize("fault", Fault)
def test_a_spend_whose_commit_is_in_doubt_costs_nothing_as_its_call_never_began(
    fault: Fault,
) -> None:
    async def main() -> None:
        stage = Stage()
        await stage.worker.open()
        stage.broker.faults.append(fault)
        stage.publish("r-1", budget={"attempts": 1})
        await stage.end()

        happened = fault in {Fault.ANSWER_LOST, Fault.HANGS_AND_HAPPENS}
        assert stage.outcomes() == (["released", "result"] if happened else ["result"])
        assert final_account(stage.broker)["spent"]["attempts"] == 1

    run(main())


def test_a_partition_that_comes_back_goes_on_with_what_it_has() -> None:
    async def main() -> None:
        stage = Stage()
        stage.publish("r-1", "r-2")
        await stage.worker.open()
        await stage.called("r-1")
        stage.worker.revoke()
        assert stage.worker.lane.state is State.SUSPENDED
        await until(lambda: done(stage.broker, ["r-1"]))
        await asyncio.sleep(5)
        assert stage.provider.made_for("r-2") == [], "revoked: nothing new is spent"
        stage.worker.assign(0)
        await stage.end()

        assert len(stage.worker.shards) == 1

    run(main())


def test_an_orphan_that_is_adopted_again_forgets_nobody() -> None:
    """Its tasks without a call were ended, so that its books cannot simply go on."""

    async def main() -> None:
        stage = Stage(slots=1)
        stage.publish("called")
        stage.publish("waiting", workflow_id=workflow_of(0, 1))
        await stage.worker.open()
        await stage.called("called")
        stage.worker.revoke()
        stage.worker.assign()
        await asyncio.sleep(0.1)
        stage.worker.revoke()
        stage.worker.assign(0)
        await stage.end()

        assert stage.outcomes() == ["result", "result"]

    run(main())


@pytest.mark.parametrize("reply", [Throttled(0.5), Rejected("profile", 401, None), answered()])
def test_an_orphan_saves_its_answers_and_holds_no_slot_afterwards(reply: Any) -> None:
    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (1.0, reply)), slots=1)
        stage.publish("r-1", "r-2")
        await stage.worker.open()
        await stage.called("r-1")
        orphan = stage.worker.lane
        stage.worker.revoke()
        stage.worker.assign()
        await until(lambda: orphan.state is State.CLOSED)

        assert stage.context.slots._value == 1
        assert len(stage.outcomes()) == 1
        assert final_account(stage.broker)["in_flight"] == []
        await stage.worker.drain()

    run(main())


def test_whoever_takes_over_shuts_the_old_lane_out() -> None:
    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (30.0, answered())))
        stage.publish("r-1", budget={"attempts": 2})
        await stage.worker.open()
        await stage.called("r-1")
        zombie = stage.worker.lane
        other = Worker(stage.broker, context(stage.provider, "other"))
        other.assign(0)
        await other.until(State.OPEN)
        await until(lambda: zombie.state is State.OPENING, 60)
        await asyncio.sleep(20)
        assert zombie.state is State.OPENING, "membership is not proved, so nobody is fenced back"
        await stage.all_done()
        await stage.worker.drain()
        await other.drain()

        assert stage.outcomes() == ["unknown", "result"]
        audit(stage.broker, stage.provider)

    run(main())


def test_a_drain_waits_for_calls_and_returns_what_was_not_used() -> None:
    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (5.0, answered())))
        stage.publish("called")
        await stage.worker.open()
        await stage.called("called")
        stage.publish("spent", workflow_id=workflow_of(0, 1))
        await until(lambda: bool(stage.worker.lane.unused), look_s=0.001)
        began = now()
        await stage.worker.drain(30)

        assert 4 < now() - began < 6
        assert sorted(stage.outcomes()) == ["released", "result"]
        assert final_account(stage.broker, workflow_of(0, 1))["spent"]["attempts"] == 0
        assert stage.provider.made_for("spent") == []

    run(main())


def test_a_drain_does_not_wait_for_what_will_not_be_called_again() -> None:
    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (1.0, Throttled(3.0))))
        stage.publish("r-1")
        await stage.worker.open()
        await stage.called("r-1")
        began = now()
        await stage.worker.drain(30)

        assert now() - began < 3
        assert stage.outcomes() == ["released"]

    run(main())


def test_rebalances_during_a_drain_bring_no_new_work() -> None:
    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (5.0, answered())))
        stage.publish("r-1", "r-2")
        await stage.worker.open()
        await stage.called("r-1")
        draining = asyncio.create_task(stage.worker.membership.drain(30))
        for _ in range(3):
            await asyncio.sleep(0.5)
            stage.worker.revoke()
            stage.worker.assign(0, 1)
        await draining

        assert [called for called, *_ in stage.provider.calls] == ["r-1"]
        assert set(stage.worker.membership.lives) == {0}, "and no lane that nobody would drain"
        assert terminals(stage.broker) == {"r-1": "result"}
        await stage.worker.drain()

    run(main())


@pytest.mark.parametrize("fault", Fault)
def test_a_drain_publishes_answers_also_if_the_producer_is_lost_meanwhile(fault: Fault) -> None:
    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (5.0, answered())))
        stage.publish("r-1", "r-2")
        await stage.worker.open()
        await stage.called("r-1")
        draining = asyncio.create_task(stage.worker.membership.drain(30))
        await asyncio.sleep(1)
        stage.broker.faults.append(fault)
        await draining

        assert terminals(stage.broker) == {"r-1": "result"}
        assert stage.outcomes() == ["result"]
        assert [called for called, *_ in stage.provider.calls] == ["r-1"]
        await stage.worker.drain()

    run(main())


@pytest.mark.parametrize("pause_s", [0.0, 0.003, 0.006, 0.011, 0.02, 0.03])
def test_rebalances_at_any_moment_of_an_opening_leave_one_open_lane(pause_s: float) -> None:
    async def main() -> None:
        stage = Stage()
        stage.publish("r-1")
        for _ in range(7):
            stage.worker.assign(0)
            await asyncio.sleep(pause_s)
            stage.worker.revoke()
            if pause_s > 0.01:
                stage.worker.assign()
        stage.worker.assign(0)
        await stage.end()
        await asyncio.sleep(1)

        assert all(shard.is_closed for shard in stage.worker.shards)

    run(main())


def test_a_blocked_loop_makes_no_late_call_and_loses_no_attempt() -> None:
    """Commits time out and permits expire at once: the lane is opened again, that is all."""

    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (2.0, answered())))
        stage.publish("called", budget={"attempts": 1})
        await stage.worker.open()
        await stage.called("called")
        stage.publish("spent", workflow_id=workflow_of(0, 1), budget={"attempts": 1})
        await until(lambda: bool(stage.worker.lane.unused), look_s=0.001)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.block(12)
        await stage.end()

        assert stage.provider.made_for("called") == [1]
        assert sorted(stage.outcomes()) == ["released", "result", "result"]
        assert set(terminals(stage.broker).values()) == {"result"}

    run(main())


def test_a_bug_in_handling_one_request_ends_with_that_request() -> None:
    async def main() -> None:
        stage = Stage()
        planner = stage.context.planner
        plan = planner.plan

        def broken(request: Any) -> Any:
            if request.request_id == "poison":
                raise RuntimeError("a bug")
            return plan(request)

        planner.plan = broken  # type: ignore[method-assign]
        stage.publish("poison")
        stage.publish(*(f"r-{n}" for n in range(5)), workflow_id=workflow_of(0, 1))
        await stage.worker.open()
        await stage.end()

        letters = events(stage.broker, DEAD_LETTERS)
        assert [letter["request_id"] for letter in letters] == ["poison"]
        assert letters[0]["cause"]["kind"] == "crashed_worker"
        assert len(stage.worker.shards) < 20

    run(main())


def test_a_bug_in_taking_a_record_in_leaves_no_gap() -> None:
    async def main() -> None:
        stage = Stage()
        stage.publish("r-1", "r-2", "r-3")
        await stage.worker.open()
        books = stage.worker.lane.books
        arrive = type(books).arrive
        raised: list[Any] = []

        def broken(self: Any, arrival: Any, now: Any) -> Any:
            if arrival.place.offset == 1 and not raised:
                raised.append(arrival)
                raise RuntimeError("a bug")
            return arrive(self, arrival, now)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(books), "arrive", broken)
            await stage.all_done()
        await stage.end()

        assert raised
        assert stage.broker.offsets[0] == 3

    run(main())


def test_a_lane_that_stayed_calm_suspects_nobody() -> None:
    """Restarts in a row while there was nothing to do are no request's fault."""

    async def main() -> None:
        stage = Stage()
        for _ in range(8):
            await stage.worker.open()
            await stage.worker.crash()
            stage.worker = Worker(stage.broker, context(stage.provider))
        await stage.worker.open()
        assert stage.worker.lane.suspect_openings == 9
        await asyncio.sleep(70)
        stage.publish("r-1")
        await stage.end()

        assert terminals(stage.broker) == {"r-1": "result"}

    run(main())


def test_the_request_that_kills_its_worker_again_and_again_is_given_up() -> None:
    async def main() -> None:
        stage = Stage(FakeProvider(lambda name, _: (0.5 if name == "poison" else 5.0, answered())))
        stage.publish("poison", "r-1")
        for _ in range(6):
            await stage.worker.open()
            if not done(stage.broker, ["poison"]):
                calls = len(stage.provider.calls)
                await until(lambda before=calls: len(stage.provider.calls) > before)  # type: ignore[misc]
            await stage.worker.crash()
            stage.worker = Worker(stage.broker, context(stage.provider))
        await stage.worker.open()
        await stage.end()

        assert terminals(stage.broker) == {"poison": "dead_letter", "r-1": "result"}
        cause = {"kind": "crashed_worker", "openings": 6}
        assert events(stage.broker, DEAD_LETTERS)[0]["cause"] == cause

    run(main())


def test_state_that_nobody_understands_keeps_the_lane_shut_and_says_so() -> None:
    async def main() -> None:
        stage = Stage()
        stage.broker.log(RETRIES).append(b"r-9", b"{}", (), stage.broker.clock.now())
        stage.publish("r-1")
        stage.worker.assign(0)
        await until(lambda: stage.worker.life.stuck is not None)
        await asyncio.sleep(60)

        assert stage.worker.lane.state is State.OPENING
        assert len(stage.worker.shards) == 1
        assert all(shard.is_closed for shard in stage.worker.shards)
        await stage.worker.drain()

    run(main())


def test_requests_deleted_before_they_were_read_are_reported() -> None:
    async def main() -> None:
        stage = Stage()
        stage.publish("gone", "r-1")
        stage.broker.offsets[0] = 0
        del stage.broker.log(REQUESTS).records[0]
        stage.names.remove("gone")
        await stage.worker.open()
        await stage.end()

        assert stage.context.tally.unread == 1

    run(main())


def test_nothing_is_answered_twice_after_days_without_a_worker() -> None:
    """What was finished beyond the committed offset is known for as long as it may come again."""

    async def main() -> None:
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

    run(main())


def test_a_call_that_runs_past_the_deadline_is_cut_in_time() -> None:
    async def main() -> None:
        stage = Stage(FakeProvider(lambda *_: (3_000.0, answered())), timeout_s=3_000)
        stage.publish("r-1", ttl_s=30)
        await stage.worker.open()
        began = now()
        await stage.all_done()

        assert 30 < now() - began < 30 + 60
        await stage.end()

    run(main())


def test_deadlines_are_kept_by_those_that_wait_for_whatever_reason() -> None:
    async def main() -> None:
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

    run(main())


def test_a_provider_that_cancels_its_own_call_blocks_nobody() -> None:
    async def main() -> None:
        stage = Stage(
            FakeProvider(lambda _, n: (1.0, asyncio.CancelledError() if n == 1 else answered()))
        )
        stage.publish("r-1", "r-2")
        await stage.worker.open()
        await stage.end()

        assert stage.outcomes() == ["retry", "result", "retry", "result"]

    run(main())


def test_a_misrouted_request_is_answered_where_it_belongs() -> None:
    async def main() -> None:
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
        assert stage.context.tally.forwarded == 1
        audit(stage.broker, stage.provider, partition=1)

    run(main())


def test_a_retry_that_is_due_at_once_is_known_to_its_lane() -> None:
    """It may begin before the task of the attempt before has ended; nobody could end it else."""

    async def main() -> None:
        script: dict[int, tuple[float, Reply]] = {1: (1.0, TimedOut(1.0)), 2: (1.0, answered())}
        stage = Stage(FakeProvider(lambda _, attempt: script[attempt]), jitter=0.0)
        stage.publish(*(f"r-{n}" for n in range(20)), policy={"ordering": "none"})
        await stage.worker.open()
        await until(lambda: len(stage.provider.calls) == 40)

        assert set(stage.worker.lane.tasks) == set(stage.worker.lane.calls)
        await stage.end()

    run(main())
