"""Cancellations in a lane: of runs and plain requests, before, during and after their work."""

import asyncio
from datetime import timedelta
from typing import Any, Literal

import pytest

from answerbus.control import Cancel
from answerbus.limits import CANCELLED_AT_ONCE_MAX
from answerbus.request_key import RequestKey
from answerbus.topics import ATTEMPTS, CONTROLS
from services.worker.core.attempt.reply import Throttled
from services.worker.lane.state.cancellations import CANCELS_KEPT, CANCELS_MAX, Cancellations
from services.worker.lane.state.queue import Queue
from services.worker.lane.state.signals import SignalRecord
from tests.unit.worker.builders import NOW, lane_request, workflow_of
from tests.unit.worker.lane.fakes import COMMIT_S
from tests.unit.worker.lane.run_checks import cause, finished
from tests.unit.worker.lane.run_world import WORKFLOW, RunStage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import done, events, terminals, until

OTHER = workflow_of(0, 1)  # of the same lane

pytestmark = pytest.mark.wide


@on_virtual_time
async def test_a_run_that_waits_for_tools_is_cancelled_with_its_calls() -> None:
    stage = await RunStage.opened("r-1", "r-2", tooling=lambda _: [])
    await until(lambda: len(stage.tools.ran) == 2)
    stage.cancel("r-1")
    stage.cancel("r-2")  # it is behind the other
    await until(lambda: done(stage.broker, stage.names), 5.0)
    await finished(stage)

    assert (cause(stage, "r-1"), cause(stage, "r-2")) == ("cancelled", "cancelled")
    assert {step["outcome"]["kind"] for step in stage.steps("tool_ended")} == {"cancelled"}
    assert len(stage.tools.ran) == 2
    assert stage.provider.asked_of.keys() == {("r-1", 0)}


@on_virtual_time
async def test_a_request_whose_call_is_in_flight_ends_as_cancelled_when_it_is_home() -> None:
    stage = await RunStage.opened("r-1", call_s=20.0)
    await until(lambda: stage.provider.now_running == 1)
    stage.cancel("r-1")
    await until(lambda: stage.steps("control_applied") != [])
    assert not done(stage.broker, ["r-1"])
    await finished(stage)

    assert cause(stage, "r-1") == "cancelled"
    assert stage.steps("step") == []


@pytest.mark.parametrize("more", [{}, {"agent": None}])
@on_virtual_time
async def test_a_cancel_that_comes_before_its_request_is_remembered_over_a_restart(
    more: dict[str, Any],
) -> None:
    stage = await RunStage.opened()
    stage.cancel("r-1")
    await until(lambda: stage.steps("control_applied") != [])
    await stage.crash()
    await stage.worker.open()
    stage.publish("r-1", **more)
    await finished(stage)

    assert stage.steps("control_applied")[0]["effect"] == "remembered"
    assert cause(stage, "r-1") == "cancelled"
    assert stage.provider.calls == []


@on_virtual_time
async def test_all_open_requests_of_a_workflow_are_cancelled_at_once() -> None:
    stage = await RunStage.opened("r-1", "r-2", "r-3", tooling=lambda _: [])
    await until(lambda: stage.tools.ran != [])
    stage.cancel_workflow()
    await finished(stage)

    assert set(terminals(stage.broker).values()) == {"dead_letter"}
    (applied,) = stage.steps("control_applied")
    assert (applied["effect"], sorted(applied["requests"])) == ("cancelled", stage.names)


@on_virtual_time
async def test_a_cancel_of_what_has_ended_does_nothing() -> None:
    stage = await RunStage.opened("r-1")
    await until(lambda: done(stage.broker, ["r-1"]))
    stage.cancel("r-1")
    await until(lambda: stage.steps("control_applied") != [])
    await finished(stage)

    assert stage.steps("control_applied")[0]["effect"] == "nothing"
    assert terminals(stage.broker) == {"r-1": "result"}


@on_virtual_time
async def test_a_cancel_that_is_applied_survives_a_crash_before_the_request_has_ended() -> None:
    stage = await RunStage.opened("r-1", call_s=20.0)
    await until(lambda: stage.provider.now_running == 1)
    stage.cancel("r-1")
    await until(lambda: stage.steps("control_applied") != [])
    await stage.crash()
    await stage.worker.open()
    await finished(stage)

    assert cause(stage, "r-1") == "cancelled"
    assert len(stage.provider.calls) == 1


def cancel(scope: Literal["request", "workflow"] = "request", name: str = "r-1") -> Cancel:
    request_id = name if scope == "request" else None
    return Cancel(
        scope=scope, request_id=request_id, workflow_id=WORKFLOW, by="ops", reason="why", at=NOW
    )


@pytest.mark.parametrize("scope", ["request", "workflow"])
@on_virtual_time
async def test_a_cancel_that_comes_while_the_outcome_is_committed_leaves_nothing_behind(
    scope: Literal["request", "workflow"],
) -> None:
    stage = await RunStage.opened("r-1")
    lane = stage.worker.lane
    ledger = lane.lane_state.ledger
    await until(lambda: ledger.known(RequestKey(WORKFLOW, "r-1")) is not None, look_s=COMMIT_S / 4)
    assert not done(stage.broker, ["r-1"])  # decided, and not committed yet
    assert lane.open
    lane.on_signals(lane.open, [SignalRecord(CONTROLS, 0, "controls-0-0", cancel(scope))])
    await finished(stage)

    effect = "nothing" if scope == "request" else "remembered"
    assert stage.steps("control_applied")[0]["effect"] == effect
    assert terminals(stage.broker) == {"r-1": "result"}
    assert stage.open_records() == {}


@on_virtual_time
async def test_a_request_that_waits_for_a_place_at_its_provider_ends_without_a_call() -> None:
    """A7: the place is taken by a call that lasts; the next would wait until its deadline."""
    stage = await RunStage.opened(slots=1, call_s=50.0)
    stage.publish("r-1", "r-2", policy={"ordering": "none"}, agent=None)
    await until(lambda: stage.provider.now_running == 1)
    await asyncio.sleep(1)
    stage.cancel("r-2")
    await until(lambda: done(stage.broker, ["r-2"]), 5.0)
    assert [request_id for request_id, *_ in stage.provider.calls] == ["r-1"]
    await finished(stage)

    assert cause(stage, "r-2") == "cancelled"
    assert [a["request_id"] for a in events(stage.broker, ATTEMPTS)] == ["r-1"]


@on_virtual_time
async def test_a_request_that_waits_for_its_provider_to_come_back_ends_at_once() -> None:
    """A7: the breaker is open, and leaves the provider alone for minutes."""
    stage = RunStage()
    stage.provider.reply = Throttled(retry_after_s=400.0)
    await stage.worker.open()
    plain: dict[str, Any] = {"policy": {"ordering": "none"}, "agent": None, "ttl_s": 3_000}
    stage.publish("r-1", **plain)
    await until(lambda: len(stage.provider.calls) == 1)
    await asyncio.sleep(20)
    stage.publish("r-2", **plain)
    await asyncio.sleep(20)
    stage.cancel("r-1")
    stage.cancel("r-2")
    await until(lambda: done(stage.broker, stage.names), 5.0)
    await finished(stage)

    assert (cause(stage, "r-1"), cause(stage, "r-2")) == ("cancelled", "cancelled")
    assert len(stage.provider.calls) == 1


@on_virtual_time
async def test_a_workflow_is_cancelled_with_what_it_has_unread_and_not_with_what_comes_later() -> (
    None
):
    stage = await RunStage.opened(call_s=20.0)
    await stage.worker.crash()
    stage.publish("r-1", "r-2", agent=None)
    stage.cancel_workflow()
    await asyncio.sleep(1)
    stage.publish("r-3", agent=None)
    stage.worker = stage.new_worker()
    await stage.worker.open()
    await finished(stage)

    assert terminals(stage.broker) == {
        "r-1": "dead_letter",
        "r-2": "dead_letter",
        "r-3": "result",
    }


def test_a_workflow_with_more_requests_than_an_event_names_is_cancelled_whole() -> None:
    count = CANCELLED_AT_ONCE_MAX + 100
    held = {RequestKey(WORKFLOW, f"r-{n}"): lane_request(f"r-{n}", WORKFLOW) for n in range(count)}
    cancellations, queue = Cancellations(0), Queue()

    written = cancellations.add(cancel("workflow"), [*held.values()], NOW, held, NOW)
    for one in held.values():
        cause = cancellations.cause_of(one)
        assert cause
        queue.cancel(one, cause)

    assert (len(written), len(cancellations.found)) == (1, 1)
    taken = [queue.take_ending(64) for _ in range(count // 64 + 1)]
    assert {len(some) for some in taken[:-1]} == {64}
    assert [one for some in taken for one in some] == [*held.values()]


@on_virtual_time
async def test_a_cancel_with_another_workflow_takes_the_place_of_none() -> None:
    stage = await RunStage.opened()
    stage.cancel("r-1")
    stage.cancel("r-1", "forged")
    stage.cancel("r-1", OTHER)
    await until(lambda: len(stage.steps("control_applied")) == 3)
    stage.publish("r-1", agent=None)
    await until(lambda: done(stage.broker, stage.names))
    await stage.end()

    assert cause(stage, "r-1") == "cancelled"
    effects = [step["effect"] for step in stage.steps("control_applied")]
    assert effects == ["remembered", "nothing", "remembered"]


def test_a_cancel_is_remembered_for_a_day_and_no_longer() -> None:
    cancellations = Cancellations(0)
    (record,) = cancellations.add(cancel(), (), NOW, {}, NOW)
    late, second = NOW + CANCELS_KEPT + timedelta(seconds=1), timedelta(seconds=1)

    in_time, too_late = (lane_request("r-1", WORKFLOW, at=at) for at in (late - second, late))
    causes = [cancellations.cause_of(one) for one in (in_time, too_late)]
    assert (causes[0] is None, causes[1]) == (False, None)
    ended, _ = cancellations.add(cancel(name="r-2"), (), late, {}, late)
    assert (ended.key, ended.value) == (record.key, None)
    assert len(cancellations.found) == 1


def test_of_too_many_cancels_the_oldest_is_dropped_but_not_that_of_an_open_request() -> None:
    cancellations = Cancellations(0)
    is_open = {RequestKey(WORKFLOW, "r-0")}
    for number in range(CANCELS_MAX + 10):
        cancellations.add(cancel(name=f"r-{number}"), (), NOW, is_open, NOW)

    kept = [one.request_id for one in cancellations.found.values()]
    assert (len(kept), kept[:2]) == (CANCELS_MAX, ["r-0", "r-11"])
