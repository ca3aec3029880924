"""Cancellations in a lane: of runs and plain requests, before, during and after their work."""

from typing import Any, Literal

import pytest

from answerbus.control import Cancel
from answerbus.topics import CONTROLS
from services.worker.lane.state.hearing import SpokenRecord
from tests.unit.worker.builders import NOW
from tests.unit.worker.lane.fakes import COMMIT_S
from tests.unit.worker.lane.run_checks import cause, finished
from tests.unit.worker.lane.run_world import WORKFLOW, RunStage
from tests.unit.worker.lane.virtual import run
from tests.unit.worker.lane.world import done, terminals, until

pytestmark = pytest.mark.wide


def test_a_run_that_waits_for_tools_is_cancelled_and_they_are_told() -> None:
    async def main() -> None:
        stage = RunStage(tooling=lambda _: [])
        await stage.worker.open()
        stage.publish("r-1", "r-2")
        await until(lambda: len(stage.tools.ran) == 2)
        stage.cancel("r-1")
        stage.cancel("r-2")  # it stands behind the other
        await until(lambda: done(stage.broker, stage.names), 5.0)
        await finished(stage)

        assert (cause(stage, "r-1"), cause(stage, "r-2")) == ("cancelled", "cancelled")
        assert {one["outcome"]["kind"] for one in stage.steps("tool_ended")} == {"cancelled"}
        assert len(stage.tools.ran) == 2
        assert stage.provider.asked_of.keys() == {("r-1", 0)}

    run(main())


def test_a_request_whose_call_is_in_flight_ends_as_cancelled_when_it_is_home() -> None:
    async def main() -> None:
        stage = RunStage()
        stage.provider.call_s = 20.0
        await stage.worker.open()
        stage.publish("r-1")
        await until(lambda: stage.provider.now_running == 1)
        stage.cancel("r-1")
        await until(lambda: stage.steps("control_applied") != [])
        assert not done(stage.broker, ["r-1"])
        await finished(stage)

        assert cause(stage, "r-1") == "cancelled"
        assert stage.steps("step") == []

    run(main())


@pytest.mark.parametrize("more", [{}, {"agent": None}])
def test_a_cancel_that_comes_before_its_request_is_remembered_over_a_restart(
    more: dict[str, Any],
) -> None:
    async def main() -> None:
        stage = RunStage()
        await stage.worker.open()
        stage.cancel("r-1")
        await until(lambda: stage.steps("control_applied") != [])
        await stage.crash()
        await stage.worker.open()
        stage.publish("r-1", **more)
        await finished(stage)

        assert stage.steps("control_applied")[0]["effect"] == "remembered"
        assert cause(stage, "r-1") == "cancelled"
        assert stage.provider.calls == []

    run(main())


def test_all_open_requests_of_a_workflow_are_cancelled_at_once() -> None:
    async def main() -> None:
        stage = RunStage(tooling=lambda _: [])
        await stage.worker.open()
        stage.publish("r-1", "r-2", "r-3")
        await until(lambda: stage.tools.ran != [])
        stage.control({"kind": "cancel", "scope": "workflow", "request_id": None})
        await finished(stage)

        assert set(terminals(stage.broker).values()) == {"dead_letter"}
        (applied,) = stage.steps("control_applied")
        assert (applied["effect"], sorted(applied["requests"])) == ("cancelled", stage.names)

    run(main())


def test_a_cancel_of_what_has_ended_does_nothing() -> None:
    async def main() -> None:
        stage = RunStage()
        await stage.worker.open()
        stage.publish("r-1")
        await until(lambda: done(stage.broker, ["r-1"]))
        stage.cancel("r-1")
        await until(lambda: stage.steps("control_applied") != [])
        await finished(stage)

        assert stage.steps("control_applied")[0]["effect"] == "nothing"
        assert terminals(stage.broker) == {"r-1": "result"}

    run(main())


def test_a_cancel_that_is_applied_survives_a_crash_before_the_request_has_ended() -> None:
    async def main() -> None:
        stage = RunStage()
        stage.provider.call_s = 20.0
        await stage.worker.open()
        stage.publish("r-1")
        await until(lambda: stage.provider.now_running == 1)
        stage.cancel("r-1")
        await until(lambda: stage.steps("control_applied") != [])
        await stage.crash()
        await stage.worker.open()
        await finished(stage)

        assert cause(stage, "r-1") == "cancelled"
        assert len(stage.provider.calls) == 1

    run(main())


def cancel(scope: Literal["request", "workflow"]) -> Cancel:
    name = "r-1" if scope == "request" else None
    said = {"scope": scope, "request_id": name, "workflow_id": WORKFLOW, "by": "ops", "reason": "y"}
    return Cancel.model_validate({**said, "kind": "cancel", "at": NOW})


@pytest.mark.parametrize("scope", ["request", "workflow"])
def test_a_cancel_that_comes_while_the_outcome_is_committed_leaves_nothing_behind(
    scope: Literal["request", "workflow"],
) -> None:
    async def main() -> None:
        stage = RunStage()
        await stage.worker.open()
        stage.publish("r-1")
        lane = stage.worker.lane
        ledger = lane.lane_state.ledger
        await until(lambda: ledger.known("r-1") is not None, look_s=COMMIT_S / 4)
        assert not done(stage.broker, ["r-1"])  # decided, and not committed yet
        assert lane.open
        lane.hear_said(lane.open, [SpokenRecord(CONTROLS, 0, "controls-0-0", cancel(scope))])
        await finished(stage)

        assert stage.steps("control_applied")[0]["effect"] == "nothing"
        assert terminals(stage.broker) == {"r-1": "result"}
        assert stage.open_records() == {}

    run(main())
