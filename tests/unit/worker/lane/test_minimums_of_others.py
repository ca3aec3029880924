"""Requests beside a run that keeps its reserved minimum: they wait until the run has ended."""

from collections.abc import Mapping
from typing import Any

from answerbus.topics import ATTEMPTS, DEAD_LETTERS
from services.worker.core.attempt.reply import Throttled
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.run_checks import cause, finished
from tests.unit.worker.lane.run_world import RunStage, Tooling, prompt_tool
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import done, events, terminals, until

STEPS = (actions(call()), actions(says("Well.")))
ALONE: dict[str, Any] = {"agent": None, "answer_schema": {"kind": "text"}}


def of_attempts(count: int) -> dict[str, Any]:
    return {"budget": {"attempts": count}, "policy": {"ordering": "none"}}


async def run_at_its_tool(tooling: Tooling = prompt_tool) -> RunStage:
    """With two attempts, of which one is made."""
    stage = await RunStage.opened("r-1", steps=STEPS, tooling=tooling, asked=of_attempts(2))
    await until(lambda: bool(stage.tools.ran))
    return stage


async def two_runs_with_a_last_call(late: Mapping[str, float]) -> RunStage:
    """With four attempts together; that of r-1 is called a second time, for long."""
    stage = await RunStage.opened(
        *late,
        steps=STEPS,
        tooling=lambda call: [(late[call["request_id"]], {"kind": "ok", "value": "done"})],
        asked=of_attempts(4),
    )
    await until(lambda: len(stage.tools.ran) == len(late))
    stage.provider.call_s = 5.0
    await until(lambda: stage.provider.asked_of["r-1", 1] == 1)
    return stage


def has_uncounted(stage: RunStage) -> bool:
    return any(not attempt["counted"] for attempt in events(stage.broker, ATTEMPTS))


@on_virtual_time
async def test_what_a_run_keeps_and_does_not_use_is_there_for_the_next() -> None:
    stage = await run_at_its_tool(lambda _: [])
    stage.publish("r-2", **of_attempts(2), **ALONE)
    stage.cancel("r-1")
    await until(lambda: done(stage.broker, ["r-1"]))
    await finished(stage)

    assert terminals(stage.broker) == {"r-1": "dead_letter", "r-2": "result"}


@on_virtual_time
async def test_a_run_keeps_its_reserved_minimum_while_its_last_call_was_not_counted() -> None:
    stage = await run_at_its_tool()
    stage.provider.reply = Throttled(retry_after_s=0.5)
    await until(lambda: len(stage.provider.prompts) == 2)
    stage.publish("r-2", **of_attempts(2), **ALONE)
    stage.provider.reply = None
    await until(lambda: done(stage.broker, stage.names))
    await finished(stage)

    assert terminals(stage.broker) == {"r-1": "result", "r-2": "dead_letter"}


@on_virtual_time
async def test_a_run_does_not_wait_behind_those_that_wait_for_what_it_keeps() -> None:
    slow = [(5.0, {"kind": "ok", "value": "done"})]
    stage = await run_at_its_tool(lambda _: slow)
    stage.publish("r-2", **of_attempts(2), **ALONE)
    await finished(stage, limit_s=60.0)

    assert terminals(stage.broker) == {"r-1": "result", "r-2": "dead_letter"}


@on_virtual_time
async def test_runs_that_keep_too_little_for_their_next_step_do_not_wait_for_each_other() -> None:
    long = [(1.0, {"kind": "ok", "value": "x" * 18_000})]
    asked = {"budget": {"attempts": 9, "tokens": 20_000}, "policy": {"ordering": "none"}}
    stage = await RunStage.opened("r-1", "r-2", steps=STEPS, tooling=lambda _: long, asked=asked)
    await finished(stage, limit_s=60.0)

    ended = terminals(stage.broker)
    assert sorted(ended.values()) == ["dead_letter", "result"]
    (dead_letter,) = (name for name, kind in ended.items() if kind == "dead_letter")
    assert cause(stage, dead_letter) == "budget_exhausted"


@on_virtual_time
async def test_a_run_whose_last_call_a_crash_took_leaves_another_what_that_keeps() -> None:
    """The call is counted, since it may have been made: nothing is kept for that run any more."""
    stage = await two_runs_with_a_last_call({"r-1": 0.02, "r-2": 30.0})
    await stage.crash()
    await stage.worker.open()
    stage.provider.call_s = 0.05
    await finished(stage)

    assert terminals(stage.broker) == {"r-1": "dead_letter", "r-2": "result"}
    (dead_letter,) = events(stage.broker, DEAD_LETTERS)
    assert dead_letter["account"]["spent"]["attempts"] == 4, "it has waited for what was left"


@on_virtual_time
async def test_a_run_that_was_refused_for_a_moment_keeps_its_reserved_minimum_over_a_crash() -> (
    None
):
    """What another run lost with the crash is not taken from it."""
    stage = await two_runs_with_a_last_call({"r-1": 0.02, "r-2": 0.5})
    stage.provider.call_s, stage.provider.reply = 0.05, Throttled(retry_after_s=60.0)
    await until(lambda: has_uncounted(stage))
    await stage.crash()
    await stage.worker.open()
    stage.provider.reply = None
    await finished(stage)

    assert terminals(stage.broker) == {"r-1": "dead_letter", "r-2": "result"}
