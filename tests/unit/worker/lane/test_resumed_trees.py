"""A tree whose root died and is replayed: no child is asked again, and its results can be used."""

from collections import Counter
from typing import Any

import pytest

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, RESULTS, STEPS
from services.commands.workflow import runs_of
from services.operators.timeline.timeline import timeline
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.delegating import (
    DelegatingStage,
    check_tree,
    delegate,
    finish,
    wrapped,
)
from tests.unit.worker.lane.run_checks import cause, stored_in
from tests.unit.worker.lane.run_world import WORKFLOW
from tests.unit.worker.lane.test_resumed_runs import repeated, replay
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import done, events, final_account, until

pytestmark = pytest.mark.wide

Json = dict[str, Any]
NEW = "r-1.replay.1"


def noted(name: str) -> Json:
    return wrapped(notes=[f"from {name}"])


def order(number: int) -> Json:
    return call(order_id=str(number))


TEN = (
    actions(delegate("a"), delegate("b")),
    actions(order(1)),
    actions(delegate("c", agent="support")),
    actions(order(2)),
    actions(delegate("d", use=["call:1.0"])),
    actions(order(3)),
    # The run dies here, and its replay goes on.
    actions(delegate("e", use=["call:1.0", "call:3.0"])),
    actions(delegate("f", use=["call:7.0", "call:1.1"])),
    actions(order(4)),
    actions(says("All is well.")),
)
CHILDREN = {
    "r-1.call.1.0": (noted("a"),),
    "r-1.call.1.1": (noted("b"),),
    "r-1.call.3.0": (actions(order(9)), finish(noted("c"))),
    "r-1.call.5.0": (noted("d"),),
    f"{NEW}.call.1.0": (noted("e"),),
    f"{NEW}.call.2.0": (noted("f"),),
}
BUDGET = 7 + 5  # of the root until its seventh step, and of four children, one of them with a tool


async def died() -> DelegatingStage:
    stage = await DelegatingStage.opened(
        "r-1", steps=TEN, answers=CHILDREN, asked={"budget": {"attempts": BUDGET}}
    )
    await until(lambda: done(stage.broker, stage.names))
    assert cause(stage, "r-1") == "budget_exhausted"
    assert len(stage.children()) == 4
    return stage


async def finished(stage: DelegatingStage) -> None:
    await until(lambda: done(stage.broker, stage.names), 900.0)
    await stage.end()
    check_tree(stage)
    assert repeated(stage) == [], "no tool is called again"
    answers = {event["request_id"]: event for event in events(stage.broker, RESULTS)}
    assert answers[NEW]["answer"] == "All is well."
    steps = [step["n"] for step in stage.steps("step") if step["request_id"] == NEW]
    assert steps == [7, 8, 9]


@on_virtual_time
async def test_a_tree_that_died_at_step_7_of_10_goes_on_there() -> None:
    stage = await died()
    asked_before = len(stage.provider.prompts)
    replay(stage)
    await finished(stage)

    asked = Counter(prompt.request_id for prompt in stage.provider.prompts[asked_before:])
    assert asked == {NEW: 4, f"{NEW}.call.1.0": 1, f"{NEW}.call.2.0": 1}


@on_virtual_time
async def test_children_are_given_what_calls_before_the_death_came_to() -> None:
    """Attempts begin with 1 again, and the names of calls go on: each names one call."""
    stage = await died()
    replay(stage)
    await finished(stage)

    fields = {
        prompt.request_id: "".join(t.text for t in prompt.turns)
        for prompt in stage.provider.prompts
    }
    used = {
        name: [letter for letter in "abcdef" if f"from {letter}" in fields[f"{NEW}.call.{name}"]]
        for name in ("1.0", "2.0")
    }
    assert used == {"1.0": ["a", "c"], "2.0": ["b", "e"]}
    heads = [line for line in fields[NEW].splitlines() if line.startswith("call:")]
    names = [head.partition(" ")[0] for head in heads]
    assert len(set(names)) == len(names)
    assert "call:7.0 delegate" in fields[NEW]


def test_a_worker_that_is_killed_while_it_goes_on_repeats_nothing_that_was_committed() -> None:
    async def history(after_s: float) -> None:
        stage = await died()
        asked_before = len(stage.provider.prompts)
        replay(stage)
        await stage.crash_often(3, after_s)
        await finished(stage)
        asked = {prompt.request_id for prompt in stage.provider.prompts[asked_before:]}
        assert all(name.startswith(NEW) for name in asked), "no child of before is asked again"

    for number in range(0, 60, 10):
        run(history(0.017 * number))


@on_virtual_time
async def test_what_the_nodes_of_a_tree_cost_is_what_its_account_was_charged() -> None:
    stage = await died()
    await stage.end()
    entries = timeline(WORKFLOW, stored_in(stage, ATTEMPTS, RESULTS, DEAD_LETTERS, STEPS))
    (root,) = runs_of(entries)

    spent = final_account(stage.broker)["spent"]
    assert root.whole.model_dump() == spent
    assert (root.own.attempts, root.whole.attempts) == (7, BUDGET)
    assert spent["tokens"] > 0
    below = [child for call in root.calls for child in call.children]
    assert [child.whole.attempts for child in below] == [1, 1, 2, 1]
