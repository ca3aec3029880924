"""Profiles side by side: what one of them lacks is not the others' loss."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from answerbus.partition import partition_of
from answerbus.topics import DEAD_LETTERS
from services.worker.core.attempt.reply import Rejected, Reply, Throttled
from services.worker.core.shared_budget.rules import BudgetRules, PeriodLimits
from services.worker.lane.context import Limits
from services.worker.limits.profile_limiter import ProfileLimiter
from tests.unit.worker.builders import PARTITIONS, answered, workflow_of
from tests.unit.worker.lane.stage import Stage, now
from tests.unit.worker.lane.test_fallback import lanes_speak
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import FakeProvider, done, events, terminals, until

IN_FLIGHT = 10


def add_profile(stage: Stage, name: str, limiter: ProfileLimiter, provider: FakeProvider) -> None:
    backends = stage.context.planner.backends
    assert isinstance(backends, dict)
    facts = replace(backends["default"].facts, name=name)
    backends[name] = replace(backends["default"], limiter=limiter, provider=provider, facts=facts)


async def time_of_mine(stage: Stage, **more: Any) -> float:
    """The seconds that a request takes beside those of others."""
    stage.publish("mine", **more)
    began = now()
    await until(lambda: done(stage.broker, ["mine"]), 10_000)
    took_s = now() - began
    await stage.worker.drain()
    return took_s


async def served_after_s(other: FakeProvider, ahead: int) -> float:
    """A request of a healthy profile, behind many of another one that takes one call at a time."""
    stage = Stage(
        FakeProvider(lambda *_: (0.1, answered())),
        limits=Limits(IN_FLIGHT, held_max=1_000, lane_requests_max=1_000, lane_bytes_max=10**7),
    )
    add_profile(stage, "other", ProfileLimiter(1), other)
    for number in range(ahead):
        stage.publish(f"o-{number}", workflow_id=workflow_of(0, number), profile="other")
    await stage.worker.open()
    await asyncio.sleep(1)
    return await time_of_mine(stage, workflow_id=workflow_of(0, ahead))


@pytest.mark.parametrize("rounds_ahead", [1.5, 5])
def test_a_profile_that_is_away_keeps_no_other_from_being_served(rounds_ahead: float) -> None:
    """Also where more wait for it than a worker takes in of those that it can serve."""
    away = FakeProvider(lambda *_: (0.1, Throttled(600.0)))

    assert run(served_after_s(away, int(rounds_ahead * IN_FLIGHT))) < 1


def test_a_slow_profile_keeps_no_other_from_being_served() -> None:
    slow = FakeProvider(lambda *_: (30.0, answered()))

    assert run(served_after_s(slow, IN_FLIGHT + 5)) < 1


@pytest.mark.parametrize("waiting", [4, 9])
@on_virtual_time
async def test_those_of_a_profile_that_is_away_keep_no_other_from_their_account(
    waiting: int,
) -> None:
    """They were the next to try again when the call in flight gave back what it had not used."""
    stage = Stage(FakeProvider(lambda *_: (5.0, answered())))
    away = FakeProvider(lambda *_: (0.1, Throttled(600.0)))
    add_profile(stage, "other", ProfileLimiter(100), away)
    stage.publish("finds-out", workflow_id=workflow_of(0, 1), profile="other")
    await stage.worker.open()
    await asyncio.sleep(1)
    of_one = {"policy": {"ordering": "none"}, "budget": {"attempts": 100, "tokens": 400}}
    stage.publish("first", "waits", **of_one)
    await stage.called("first")
    await asyncio.sleep(1)
    stage.publish(*(f"o-{number}" for number in range(waiting)), profile="other", **of_one)
    await asyncio.sleep(1)
    took_s = await time_of_mine(stage, **of_one)

    assert took_s < 15


@on_virtual_time
async def test_who_waits_for_a_profile_that_is_away_holds_no_budget_of_a_label() -> None:
    """Its turn came when its profile had just gone away; others may have what it claimed."""
    names = (f"t-{number}" for number in range(1_000))
    tenant = next(n for n in names if partition_of(f"tenant:{n}", PARTITIONS) == 0)
    rules = BudgetRules({"tenant": {tenant: PeriodLimits(day=(None, 400, None))}})
    stage = Stage(FakeProvider(lambda *_: (5.0, answered())), budget_rules=rules)
    away = FakeProvider(lambda *_: (0.1, Throttled(600.0)))
    add_profile(stage, "other", ProfileLimiter(100), away)
    await stage.worker.open()
    speaking = asyncio.create_task(lanes_speak(stage.worker))
    of_one = {"policy": {"ordering": "none"}, "labels": {"tenant": tenant}}
    stage.publish("first", **of_one)
    await stage.called("first")
    stage.publish("waits", profile="other", **of_one)
    await asyncio.sleep(1)
    stage.publish("finds-out", workflow_id=workflow_of(0, 1), profile="other")
    await asyncio.sleep(1)
    took_s = await time_of_mine(stage, **of_one)
    speaking.cancel()

    assert took_s < 30


@on_virtual_time
async def test_requests_that_are_never_asked_use_up_no_rate() -> None:
    """Once the budget of their workflow is gone they end at once, and others keep the minute."""
    stage = Stage(FakeProvider(lambda *_: (0.1, answered())))
    limiter = ProfileLimiter(100, requests_per_minute=60)
    add_profile(stage, "default", limiter, stage.provider)
    stage.publish(*(f"r-{number}" for number in range(60)), budget={"attempts": 1})
    began = now()
    await stage.worker.open()
    await stage.all_done()

    assert now() - began < 5
    assert sorted(terminals(stage.broker).values()) == ["dead_letter"] * 59 + ["result"]
    await stage.end()


FORBIDDEN = Rejected("profile", 403, None)


async def with_forbidden_ones(others: int, forbidden: int = 1) -> tuple[list[str], float]:
    """The dead letters, and the longest wait of requests beside those that a firewall refuses."""
    began: dict[str, float] = {}
    waits: list[float] = []

    def reply(name: str, _: int) -> tuple[float, Reply]:
        if name.startswith("bad"):
            return 0.1, FORBIDDEN
        waits.append(now() - began[name])
        return 0.1, answered()

    stage = Stage(FakeProvider(reply))
    await stage.worker.open()
    for number in range(forbidden):
        stage.publish(f"bad-{number}", workflow_id=workflow_of(0, 100 + number), ttl_s=900)
    for number in range(1, others + 1):
        began[f"r-{number}"] = now()
        stage.publish(f"r-{number}", workflow_id=workflow_of(0, number), ttl_s=900)
        await asyncio.sleep(0.5)
    await until(lambda: done(stage.broker, stage.names), 2_000.0, look_s=1.0)
    await stage.worker.drain()
    letters = events(stage.broker, DEAD_LETTERS)
    return [f"{one['request_id']} {one['cause']['kind']}" for one in letters], max(waits, default=0)


@pytest.mark.parametrize("forbidden", [1, 5, 50])
def test_requests_that_a_firewall_refuses_do_not_stop_their_profile(forbidden: int) -> None:
    letters, longest_s = run(with_forbidden_ones(40, forbidden))

    assert sorted(letters) == sorted(f"bad-{number} rejected" for number in range(forbidden))
    assert longest_s < 1


def test_a_profile_that_is_forbidden_to_all_keeps_its_requests_to_their_deadline() -> None:
    letters, _ = run(with_forbidden_ones(0))

    assert letters == ["bad-0 deadline_passed"]


def test_calls_that_are_served_while_a_profile_forbids_new_ones_reject_none() -> None:
    """Those that began before its key lost a right go on, for longer than some probes."""

    async def main() -> list[str]:
        began = now()

        def reply(name: str, _: int) -> tuple[float, Reply]:
            is_forbidden = now() - began >= 30
            return (0.1, FORBIDDEN) if is_forbidden else (31.0 + int(name), answered())

        stage = Stage(FakeProvider(reply))
        await stage.worker.open()
        for number in range(30):
            stage.publish(str(number), workflow_id=workflow_of(0, number), ttl_s=120)
        await asyncio.sleep(31)
        stage.publish("30", workflow_id=workflow_of(0, 30), ttl_s=120)
        await until(lambda: done(stage.broker, stage.names), 2_000.0, look_s=1.0)
        await stage.worker.drain()
        letters = events(stage.broker, DEAD_LETTERS)
        return [one["cause"]["kind"] for one in letters if one["request_id"] == "30"]

    assert run(main()) == ["deadline_passed"]
