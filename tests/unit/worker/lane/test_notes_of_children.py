"""What a delegated run's tool notes reaches the run's outcome, and the run that asked."""

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Any

import pytest

from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.delegating import (
    DelegatingStage,
    check_tree,
    delegate,
    finish,
    wrapped,
)
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import done, until

pytestmark = pytest.mark.wide

NOTE = "the carrier was slow today"
TOOL_S = 0.02


@on_virtual_time
async def test_a_note_of_a_specialists_tool_stands_in_its_answer_and_is_told_to_its_run() -> None:
    def noting(event: dict[str, Any]) -> Collection[Any]:
        ok = {"kind": "ok", "value": "on its way"}
        answer = partial(stage.tools.answer, event, ok, notes=[NOTE])
        asyncio.get_running_loop().call_later(TOOL_S, answer)
        return []

    specialist = (actions(call()), finish(wrapped(notes=["own"])))
    steps = (actions(delegate(agent="support")), actions(says("Joined.")))
    stage = await DelegatingStage.opened(
        "r-1", steps=steps, answers={"r-1.call.1.0": specialist}, tooling=noting
    )
    await until(lambda: done(stage.broker, stage.names))
    await stage.end()
    check_tree(stage)

    (child,) = stage.children()
    assert NOTE in child["notes"]
    assert child["answer"]["notes"][:1] == ["own"]
    assert NOTE in child["answer"]["notes"], "the model that asked reads these"
    assert NOTE in str(stage.provider.prompts[-1].turns[-1].text)
