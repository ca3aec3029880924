"""A call of a tool that must not run twice, whose server dies: over crashes of the worker, too."""

import asyncio
from typing import Any

import pytest

from tests.unit.worker.core.run_builders import actions, call, says, tool
from tests.unit.worker.lane import run_world
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.virtual import run

pytestmark = pytest.mark.wide

KILLED_AFTER_S = [None, 30.2, 65.3]
REFUND = tool("orders.refund", delivery="at_most_once", reconcilable=True)
STEPS = (actions(call("orders.refund", order_id="1")), actions(says("Done.")))


@pytest.fixture(autouse=True)
def _with_refunds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_world, "TOOLS", {REFUND.name: REFUND})


@pytest.mark.parametrize("kill_after_s", KILLED_AFTER_S)
@pytest.mark.parametrize("has_effect", [True, False])
def test_the_journal_of_a_dead_server_decides(kill_after_s: float | None, has_effect: bool) -> None:
    """It dies between the effect and the reply, or before both."""
    effects: list[str] = []

    def tooling(event: dict[str, Any]) -> list[tuple[float, dict[str, Any] | None]]:
        is_first = event["delivery"] == 1
        if has_effect or not is_first:
            effects.append(event["call_id"])
        return [] if is_first else [(0.02, {"kind": "ok", "value": "paid"})]

    def finding(question: dict[str, Any]) -> dict[str, Any]:
        happened = question["call_id"] in effects
        return {"kind": "happened", "value": "paid"} if happened else {"kind": "did_not_happen"}

    async def main() -> None:
        stage = await RunStage.opened("r-1", steps=STEPS, tooling=tooling)
        stage.tools.finding = finding
        if kill_after_s is not None:
            await asyncio.sleep(kill_after_s)
            await stage.crash()
            await stage.worker.open()
        await finished(stage)

        (ended,) = stage.steps("tool_ended")
        assert ended["outcome"] == {"kind": "ok", "value": "paid"}
        assert len(effects) == 1
        assert stage.open_records() == {}

    run(main())


@pytest.mark.parametrize("decision", ["approved", "denied"])
def test_a_person_decides_where_nobody_knows(decision: str) -> None:
    async def main() -> None:
        stage = await RunStage.opened(
            "r-1",
            steps=STEPS,
            tooling=lambda event: [(0.02, {"kind": "ok", "value": 1})] * (event["delivery"] > 1),
        )
        while not (found := stage.steps("approval_requested")):
            await asyncio.sleep(1.0)
        kept = {name: found[0][name] for name in ("call_id", "args_digest", "delivery")}
        for delivery in (1, 2):
            stage.control({**kept, "kind": "approval", "decision": decision, "delivery": delivery})
        await finished(stage)

        effects = [event["effect"] for event in stage.steps("control_applied")]
        (ended,) = stage.steps("tool_ended")
        is_approved = decision == "approved"
        assert effects == ["nothing", decision]
        assert ended["outcome"]["kind"] == ("ok" if is_approved else "timed_out")
        assert stage.tools.ran == ["r-1.call.1.0/1", "r-1.call.1.0/2"][: 1 + is_approved]

    run(main())
