"""Which lane is stuck on what, on virtual time: what is said, from when on, and when it is over."""

import asyncio
from dataclasses import replace

import pytest

from answerbus.registry import Registry
from answerbus.topics import LEDGER
from services.worker.core.attempt.reply import Reply, Throttled, TimedOut, Unavailable
from services.worker.core.limits.reachability import Reachability
from services.worker.core.request.lane_request import LaneRequest
from services.worker.handle import handle
from services.worker.health.probe import PROBE_EVERY_S
from services.worker.health.verdict import Verdict, body_of
from services.worker.lane.lane import Lane
from services.worker.lane.request_task import LaneRequestTask
from services.worker.lane.state.machine import State
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Planner
from tests.unit.worker.builders import answered, workflow_of
from tests.unit.worker.health.watch import BOUND_S, SESSION_S, Watch
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, context, publish, until

NEVER_S = 100_000.0


def called(reply: Reply, after_s: float = 1.0) -> FakeProvider:
    return FakeProvider(lambda *_: (after_s, reply))


async def watched(provider: FakeProvider | None = None) -> tuple[Stage, Watch]:
    """An open lane, and who looks at it."""
    stage = Stage(provider)
    await stage.worker.open()
    return stage, Watch(stage)


@pytest.mark.wide
@on_virtual_time
async def test_an_idle_lane_and_one_at_work_are_ready() -> None:
    stage, watch = await watched(called(answered(), 40.0))
    await asyncio.sleep(1_000)

    assert watch.verdict() == Verdict({0: State.OPEN}, (), {}, {}, ())
    assert watch.verdict().ready
    said = body_of(watch.verdict(), watch.watched)
    assert said["ready"] is True
    assert said["oldest_requests"] == {}

    stage.publish(*(f"r-{n}" for n in range(10)))  # one after the other: one workflow
    await asyncio.sleep(1)
    said = body_of(watch.verdict(), watch.watched)
    assert said["oldest_requests"] == {"0": {"profile": "default", "state": "running"}}
    for _ in range(400):
        await asyncio.sleep(1)
        assert watch.verdict().ready, watch.verdict()
    await stage.end()
    watch.stop()


AWAY = Unavailable(None, ran=False)
SERVER_ERROR = Unavailable(503, ran=True)


@pytest.mark.parametrize(
    ("reply", "call_s", "named_after_s", "why", "kind"),
    [
        (AWAY, 0.1, 1, "no connection to its server for ", "no_connection"),
        (TimedOut(5.0), 5.0, BOUND_S + 5, "the provider did not answer within 5 s", "failing"),
        (SERVER_ERROR, 0.1, BOUND_S, "the provider answers with status 503", "failing"),
        (answered(), NEVER_S, BOUND_S + 5, "no response from the provider for ", "silent"),
    ],
    ids=["away", "times out", "fails", "hangs"],
)
@on_virtual_time
async def test_a_provider_that_serves_no_call_is_named_once_and_its_lanes_are_not_stuck(
    reply: Reply, call_s: float, named_after_s: float, why: str, kind: str
) -> None:
    stage, watch = await watched(called(reply, call_s))
    stage.publish("r-1", budget={"attempts": 100})
    await asyncio.sleep(named_after_s)

    (name, said), *others = watch.verdict().unhealthy.items()
    assert (name, others, watch.verdict().stuck) == ("default", [], {})
    assert said.text.startswith(why)
    assert said.kind == kind
    profiles = body_of(watch.verdict(), watch.watched)["profiles"]
    assert isinstance(profiles, dict)
    reported = profiles["default"]
    assert (reported["problem"], reported["requests"]) == (kind, 1)
    assert reported["oldest"] is not None
    assert reported["since"] is not None
    assert not watch.verdict().ready

    stage.provider.script = lambda *_: (0.1, answered())
    await stage.end()
    assert watch.verdict().unhealthy == {}
    watch.stop()


@on_virtual_time
async def test_all_profiles_of_a_server_are_named_by_the_first_connection_that_it_refuses() -> None:
    stage = Stage(called(Unavailable(None, ran=False), 0.1))
    backends, server = dict(stage.context.planner.backends), Reachability("http://house:8080")
    backends["default"].limiter.server = server
    for name in ("small", "large"):
        limiter = ProfileLimiter(1, server=server)
        backends[name] = replace(backends["default"], limiter=limiter)
    backends["elsewhere"] = replace(backends["default"], limiter=ProfileLimiter(1))
    stage.context.planner.backends = backends
    await stage.worker.open()
    watch = Watch(stage)
    stage.publish("r-1")
    await asyncio.sleep(1)

    assert sorted(watch.verdict().unhealthy) == ["default", "large", "small"]
    watch.stop()
    await stage.worker.crash()


@on_virtual_time
async def test_a_pause_that_a_provider_asks_for_is_kept() -> None:
    stage, watch = await watched(called(Throttled(100.0)))
    stage.publish("r-1", policy={"ordering": "none"})
    await asyncio.sleep(2)
    stage.publish("r-2", policy={"ordering": "none"})  # waits at the profile
    for _ in range(300):
        await asyncio.sleep(1)
        assert watch.verdict().ready, watch.verdict()
    stage.provider.script = lambda *_: (0.1, answered())
    await stage.end()
    watch.stop()


@on_virtual_time
async def test_the_calls_of_a_lane_that_was_closed_are_in_flight_no_more() -> None:
    stage, watch = await watched(called(answered(), 500.0))
    stage.publish("r-1")
    await stage.called("r-1")
    assert body_of(watch.verdict(), watch.watched)["in_flight"] == 1
    await stage.worker.lifecycle.drain(0.1)

    assert stage.worker.membership.lifecycles, "until the next assignment"
    assert body_of(watch.verdict(), watch.watched)["in_flight"] == 0
    watch.stop()
    await stage.worker.drain()


@on_virtual_time
async def test_a_call_beyond_its_timeout_is_named() -> None:
    stage, watch = await watched(called(answered(), NEVER_S))
    stage.publish("r-1")
    await stage.called("r-1")
    calls = stage.worker.lane.calls  # as if an adapter ignored its timeout
    ((lane_request, spend),) = calls.items()
    calls.spent(lane_request, spend)
    calls.began(spend, timeout_s=1)
    await asyncio.sleep(40)

    assert watch.verdict().stuck == {
        0: "a call to profile default goes on for 40 s, its limit is 1"
    }
    watch.stop()
    await stage.worker.crash()


@on_virtual_time
async def test_a_call_whose_commits_are_slow_is_not_taken_for_one_beyond_its_timeout() -> None:
    """Each commit ends within its limit, as where a broker is frozen and another takes over."""
    stage = Stage(called(answered(), 4.0), timeout_s=5)
    await stage.worker.open()
    watch = Watch(stage)
    await asyncio.sleep(60)
    ledger = stage.broker.log(LEDGER)

    async def hang(lasts_s: float) -> None:
        """The commit that is under way, or comes next."""
        stage.broker.hangs = True
        for _ in range(round(lasts_s * 10)):
            await asyncio.sleep(0.1)
            assert watch.verdict().stuck == {}
        end = ledger.end
        stage.broker.hangs = False
        await until(lambda: ledger.end > end)

    stage.publish("r-1", policy={"ordering": "none"})
    await hang(4.0)  # the spend
    await asyncio.sleep(3.5)
    stage.publish("r-2", policy={"ordering": "none"})
    await hang(9.0)  # the spend of another, while the call ends
    await hang(9.0)  # the outcome
    await stage.end()
    watch.stop()


@on_virtual_time
async def test_who_waits_for_a_slot_that_another_lane_has_is_not_stuck() -> None:
    stage = Stage(called(answered(), NEVER_S), timeout_s=600)
    backend = stage.context.planner.backends["default"]
    backends = {"default": backend, "other": replace(backend, limiter=ProfileLimiter(1))}
    planner = Planner(backends, Registry())
    around = replace(stage.context, slots=Slots(1), planner=planner)
    await stage.worker.crash()
    stage.worker, stage.context = Worker(stage.broker, around), around
    stage.worker.assign(0, 1)
    await stage.worker.until(State.OPEN)
    watch = Watch(stage)
    publish(stage.broker, "long", workflow_of(1))
    await stage.called("long")
    publish(stage.broker, "waits", profile="other")
    await asyncio.sleep(2 * BOUND_S)

    assert (watch.verdict().stuck, list(watch.verdict().unhealthy)) == ({}, ["default"])
    watch.stop()
    await stage.worker.crash()


@on_virtual_time
async def test_a_call_that_ended_while_its_lane_could_not_write_does_not_go_on() -> None:
    """A restart, as for a call that does, would lose its answer."""
    stage, watch = await watched(called(answered(), 2.0))
    stage.publish("r-1")
    await stage.called("r-1")
    stage.broker.unreachable = True
    await asyncio.sleep(2 * BOUND_S)
    assert watch.verdict().stuck == {0: "ConnectionError: the error has no text"}
    stage.broker.unreachable = False
    await stage.worker.until(State.OPEN)

    assert (len(stage.worker.lane.calls), watch.verdict().stuck) == (1, {})
    await stage.end()
    watch.stop()


@on_virtual_time
async def test_what_was_settled_is_progress() -> None:
    stage = Stage(called(answered(), 40.0))

    async def forget_one(lane: Lane, lane_request: LaneRequest) -> None:
        if lane_request.request.request_id == "forgotten":
            await asyncio.sleep(NEVER_S)
        await handle(LaneRequestTask(lane, lane_request))

    await stage.worker.open()
    stage.worker.lane._handle = forget_one
    watch = Watch(stage)
    publish(stage.broker, "forgotten", policy={"ordering": "none"})
    publish(stage.broker, "r-1", policy={"ordering": "none"})
    await asyncio.sleep(40 + BOUND_S - 5)

    assert watch.verdict().ready

    await asyncio.sleep(10)
    assert watch.verdict().stuck == {0: "has 1 requests and made no progress for 50 s"}
    watch.stop()
    await stage.worker.crash()


@on_virtual_time
async def test_work_without_a_worker_is_named() -> None:
    stage = Stage()

    async def forget(*_: object) -> None:
        await asyncio.sleep(NEVER_S)

    await stage.worker.open()
    stage.worker.lane._handle = forget  # a bug
    watch = Watch(stage)
    publish(stage.broker, "r-1")
    await asyncio.sleep(BOUND_S + 2)

    assert watch.verdict().stuck == {0: "has 1 requests and made no progress for 47 s"}
    watch.stop()
    await stage.worker.crash()


@on_virtual_time
async def test_a_lane_that_cannot_open_or_is_not_given_back_is_named() -> None:
    stage, watch = await watched()
    stage.worker.revoke()
    await asyncio.sleep(BOUND_S - 1)

    assert watch.verdict().ready

    await asyncio.sleep(2)
    assert watch.verdict().stuck == {
        0: "was taken away 46 s ago and not given back: the group rebalances"
    }

    stage.broker.unreachable = True
    stage.worker.assign(0)
    await asyncio.sleep(30)
    assert not watch.verdict().ready
    assert "ConnectionError" in watch.verdict().stuck[0]

    stage.broker.unreachable = False
    await stage.worker.until(State.OPEN)
    assert watch.verdict().ready
    watch.stop()
    await stage.worker.drain()


@on_virtual_time
async def test_a_lane_that_opens_again_and_again_and_cannot_write_says_why() -> None:
    stage, watch = await watched(called(answered(), 1.0))
    stage.publish("r-1")
    await stage.called("r-1")
    stage.broker.faults.extend([Fault.REFUSED, None, Fault.REFUSED, None, Fault.REFUSED])
    await until(lambda: not stage.broker.faults)
    await asyncio.sleep(0.1)

    assert watch.verdict().lanes == {0: State.OPENING}
    assert watch.verdict().stuck == {0: "RefusedError"}

    await stage.all_done()
    assert watch.verdict().ready
    watch.stop()
    await stage.worker.drain()


@on_virtual_time
async def test_a_request_that_crashes_its_workers_is_named_until_it_is_given_up() -> None:
    stage = Stage(called(answered(), NEVER_S))
    stage.publish("r-1", budget={"attempts": 100}, ttl_s=3_600)
    texts = []
    for number in range(13):
        if number:
            around = context(stage.provider, f"worker-{number}")
            stage.worker, stage.context = Worker(stage.broker, around), around
        await stage.worker.open()
        watch = Watch(stage)
        await asyncio.sleep(8)
        texts.append(list(watch.verdict().stuck.values()))
        watch.stop()
        await stage.worker.crash()

    reported = [words[0].partition(":")[0] if words else None for words in texts]
    assert reported == [
        *(None, None, None),
        *(f"was opened {number} times without progress" for number in range(4, 12)),
        *(None, None),  # it has had its dead letter
    ]


@on_virtual_time
async def test_a_broker_that_does_not_answer_is_named_until_it_does() -> None:
    stage, watch = await watched()
    await asyncio.sleep(10)
    watch.is_there = False
    await asyncio.sleep(BOUND_S - 1)

    assert watch.verdict().ready

    await asyncio.sleep(5)
    (why,) = watch.verdict().reasons
    assert why.startswith("Kafka has not answered for ")

    watch.is_there = True
    await asyncio.sleep(2 * PROBE_EVERY_S)
    assert watch.verdict().ready
    watch.stop()
    await stage.worker.drain()


@on_virtual_time
async def test_a_clock_that_is_far_off_is_reported_and_stops_nothing() -> None:
    stage, watch = await watched()
    texts: list[float | None] = [None]
    watch.watched = replace(watch.watched, clock_ahead_s=lambda: texts[-1])
    for ahead_s, reasons in ((None, 0), (-299.0, 0), (-301.0, 1), (93_600.0, 1)):
        texts.append(ahead_s)
        assert len(watch.verdict().reasons) == reasons
        assert watch.verdict().ready is not bool(reasons)
    stage.publish("r-1")
    watch.stop()
    await stage.end()


def standing_still(watch: Watch, for_s: float) -> None:
    """As a process feels it that was stopped: its clock went on."""
    watch.loop_monitor._due_at -= for_s


@on_virtual_time
async def test_after_it_stood_still_a_worker_waits_for_a_word_and_for_its_partitions() -> None:
    stage, watch = await watched()
    await asyncio.sleep(10.1)
    standing_still(watch, SESSION_S + 1)

    assert watch.verdict().reasons == (
        "the process stood still for 11 s, and Kafka has not answered since",
    )
    await asyncio.sleep(2 * PROBE_EVERY_S)
    assert watch.verdict().reasons == (
        "the process stood still for 11 s, and its partitions have not been given back",
    )
    stage.worker.revoke()
    stage.worker.assign(0)
    await stage.worker.until(State.OPEN)
    assert watch.verdict().ready
    assert (watch.loop_monitor.stalls, round(watch.loop_monitor.worst_s())) == (1, 11)

    await asyncio.sleep(120)
    assert watch.loop_monitor.worst_s() == 0.0
    standing_still(watch, 6.0)  # shorter than the group waits
    assert not watch.verdict().ready
    await asyncio.sleep(2 * PROBE_EVERY_S)
    assert watch.verdict().ready
    watch.stop()
    await stage.worker.drain()


@on_virtual_time
async def test_a_lane_that_is_opening_is_not_ready_and_stuck_only_when_it_takes_long() -> None:
    stage = Stage()
    stage.broker.hangs = True
    stage.worker.assign(0)
    watch = Watch(stage)

    assert (watch.verdict().ready, watch.verdict().stuck) == (False, {})

    await asyncio.sleep(BOUND_S + 1)
    assert watch.verdict().stuck == {0: "has been opening for 46 s"}
    watch.stop()
    await stage.worker.crash()
