"""Runs that choose, within trees, replayed, and under budgets that are too small.

`LONG` histories of each shape run by `make test-long`, `SOME` of them always.
"""

import pytest

from tests.unit.worker.builders import workflow_of
from tests.unit.worker.lane.proposing import ProposingStage, check_choice
from tests.unit.worker.lane.proposing_histories import chosen
from tests.unit.worker.lane.run_checks import cause
from tests.unit.worker.lane.run_world import full_id
from tests.unit.worker.lane.test_resumed_runs import replay
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import done, until

pytestmark = pytest.mark.wide

SOME, LONG = 12, 320
SHAPES = [(3, 2), (4, 3), (5, 4), (9, 3)]  # attempts, and proposals


@pytest.mark.parametrize(("limit", "number"), SHAPES)
def test_the_selector_has_its_step_in_any_history(limit: int, number: int) -> None:
    for seed in range(SOME):
        run(chosen(limit, number, seed))


@pytest.mark.long
@pytest.mark.parametrize(("limit", "number"), SHAPES)
def test_the_selector_has_its_step_in_a_thousand_histories(limit: int, number: int) -> None:
    for seed in range(LONG):
        run(chosen(limit, number, seed))


@on_virtual_time
async def test_a_replay_repeats_no_proposal_and_chooses() -> None:
    stage = ProposingStage()
    stage.provider.choose = lambda _: "call:9.9"
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": 4})
    await until(lambda: done(stage.broker, stage.names))
    assert cause(stage, "r-1") == "budget_exhausted"
    asked = len(stage.provider.prompts)

    stage.provider.choose = lambda names: names[0]
    name = replay(stage)
    await until(lambda: done(stage.broker, stage.names))
    await stage.end()
    check_choice_of_replay(stage, name)
    assert stage.provider.chosen_among[-1] == ["call:1.0", "call:1.1", "call:1.2"]
    assert len(stage.provider.prompts) == asked + 1, "the selection alone is asked"


def check_choice_of_replay(stage: ProposingStage, name: str) -> None:
    step = next(one for one in stage.steps("step") if one.get("chosen"))
    assert (step["request_id"], step["n"], step["chosen"]) == (name, 2, full_id("r-1.call.1.0"))
    assert stage.outcome(name)["answer"] == {"title": "Title 0"}
    assert stage.outcome(name)["run"]["steps"] == 1


@on_virtual_time
async def test_a_replay_of_a_run_without_a_proposal_has_them_made_again() -> None:
    stage = ProposingStage()
    stage.provider.proposals = {str(place): "{" for place in range(3)}
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": 4}, policy={"on_invalid": "dead_letter"})
    await until(lambda: done(stage.broker, stage.names))
    assert cause(stage, "r-1") == "children_failed"

    stage.provider.proposals = {}
    name = replay(stage)
    await until(lambda: done(stage.broker, stage.names))
    await stage.end()
    outcome = stage.outcome(name)
    assert (outcome["kind"], outcome["run"]["steps"], outcome["run"]["children"]) == (
        "result",
        2,
        3,
    )


@on_virtual_time
async def test_tokens_are_kept_for_a_selection_among_long_proposals() -> None:
    stage = ProposingStage(n=2)
    stage.provider.proposals = {str(place): {"title": "x" * 300} for place in range(2)}
    for number, tokens in enumerate(range(2_000, 6_000, 500)):
        budget = {"attempts": 9, "tokens": tokens}
        stage.publish(f"r-{number}", workflow_id=workflow_of(0, number), budget=budget)
    await stage.worker.open()
    await until(lambda: done(stage.broker, stage.names))
    await stage.end()
    check_choice(stage)
    roots = [outcome for outcome in stage.outcomes() if not outcome.get("parent")]
    assert {root["kind"] for root in roots} == {"result"}
    assert {root["run"]["children"] for root in roots} == {0, 2}
