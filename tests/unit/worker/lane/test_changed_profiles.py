"""Profiles that change under load: calls end as they began, all others are planned again."""

import asyncio
from dataclasses import replace

import pytest

from services.worker.core.attempt.reply import Throttled
from services.worker.core.limits.group_share import GroupShare
from services.worker.core.run.agents import Agents
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend, BackendChange
from tests.unit.worker.builders import answered, workflow_of
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, terminals, until

CALL_S, MANY = 5.0, 40
SLOTS = 4


def provider() -> FakeProvider:
    return FakeProvider(lambda *_: (CALL_S, answered()))


def changed(
    stage: Stage, asked: FakeProvider, limiter: ProfileLimiter, alike: bool = False
) -> None:
    """As a worker does it when the settings name another provider for the profile."""
    planner = stage.context.planner
    known = planner.backends["default"]
    backend = Backend(replace(known.facts), known.dialect, asked, limiter)
    names = ("default",) if alike else ()
    planner.change(BackendChange({"default": backend}, alike=names), Agents())


@pytest.mark.wide
@on_virtual_time
async def test_a_change_under_load_ends_no_request_and_calls_none_twice() -> None:
    first, second = provider(), provider()
    stage = Stage(first, slots=SLOTS)
    await stage.worker.open()
    for number in range(MANY):
        stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    await until(lambda: len(first.calls) == 2 * SLOTS)
    await asyncio.sleep(CALL_S / 2)

    changed(stage, second, ProfileLimiter(SLOTS))
    await stage.all_done()

    assert set(terminals(stage.broker).values()) == {"result"}
    assert (len(first.calls), len(second.calls)) == (2 * SLOTS, MANY - 2 * SLOTS)
    await stage.worker.drain()


@pytest.mark.wide
@on_virtual_time
async def test_the_limit_counts_calls_that_began_before_the_change() -> None:
    first, second = provider(), provider()
    stage = Stage(first)
    changed(stage, first, ProfileLimiter(SLOTS))
    await stage.worker.open()
    for number in range(MANY):
        stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    await until(lambda: first.now_running == SLOTS)

    changed(stage, second, ProfileLimiter(SLOTS + 2), alike=True)
    await until(lambda: bool(second.calls))
    await asyncio.sleep(CALL_S / 2)

    assert first.now_running + second.now_running == SLOTS + 2
    changed(stage, second, ProfileLimiter(1), alike=True)
    await asyncio.sleep(2 * CALL_S)
    assert second.now_running == 1
    await stage.all_done()
    await stage.worker.drain()


@on_virtual_time
async def test_the_pause_of_a_provider_ends_with_its_settings() -> None:
    """A key that was wrong, say: the first request after the change is called at once."""
    stage = Stage(FakeProvider(lambda *_: (0.1, Throttled(600.0))))
    await stage.worker.open()
    stage.publish("r-1")
    await until(lambda: stage.context.planner.backends["default"].limiter.breaker.is_open)

    second = provider()
    changed(stage, second, ProfileLimiter(SLOTS))
    stage.publish("r-2", workflow_id=workflow_of(0, 1))
    await until(lambda: bool(second.made_for("r-2")), 1.0)
    await stage.worker.crash()


@on_virtual_time
async def test_what_an_old_call_comes_to_says_nothing_of_the_new_provider() -> None:
    stage = Stage(FakeProvider(lambda *_: (CALL_S, Throttled(600.0))))
    await stage.worker.open()
    stage.publish("r-1")
    await stage.called("r-1")

    changed(stage, provider(), ProfileLimiter(SLOTS))
    await asyncio.sleep(2 * CALL_S)

    assert not stage.context.planner.backends["default"].limiter.breaker.is_open
    await stage.worker.crash()


@on_virtual_time
async def test_a_profile_that_is_gone_ends_its_waiting_requests_and_no_call() -> None:
    """As after a restart: who asks for it is told so. The calls under way have their outcome."""
    first = provider()
    stage = Stage(first, slots=SLOTS)
    await stage.worker.open()
    for number in range(MANY):
        stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    await until(lambda: first.now_running == SLOTS)

    former = stage.context.planner.change(BackendChange({}, gone=["default"]), Agents())
    await stage.all_done()

    kinds = list(terminals(stage.broker).values())
    assert [backend.provider for backend in former] == [first]
    assert (kinds.count("result"), kinds.count("dead_letter")) == (SLOTS, MANY - SLOTS)
    await stage.worker.drain()


@on_virtual_time
async def test_a_profile_that_is_gone_ends_requests_that_wait_for_its_pause() -> None:
    """They waited for up to ten minutes, for a place that was good for nothing."""
    stage = Stage(FakeProvider(lambda *_: (0.1, Throttled(500.0))))
    limiter = stage.context.planner.backends["default"].limiter
    await stage.worker.open()
    stage.publish("r-1")
    await until(lambda: limiter.breaker.is_open)
    stage.publish("r-2", workflow_id=workflow_of(0, 1))
    await until(lambda: bool(limiter.waiting))

    stage.context.planner.change(BackendChange({}, gone=["default"]), Agents())
    await until(lambda: terminals(stage.broker) == {"r-2": "dead_letter"}, 5)
    await stage.worker.crash()


@on_virtual_time
async def test_a_part_of_the_groups_limits_is_a_part_of_the_new_ones() -> None:
    stage = Stage(provider())
    planner = stage.context.planner
    planner.share_out(GroupShare.of([0], 4))

    changed(stage, provider(), ProfileLimiter(40, is_of_group=True))
    assert planner.backends["default"].limiter.slots.limit == 10

    changed(stage, provider(), ProfileLimiter(40))
    assert planner.backends["default"].limiter.slots.limit == 40
    await stage.worker.crash()
