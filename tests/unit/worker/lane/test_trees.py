"""Trees of requests under a budget that is too small, providers that fail, and workers that die.

`LONG` histories of each shape run by `make test-long`, `SOME` of them always.
"""

from itertools import product

import pytest

from tests.unit.worker.core.run_builders import actions, says
from tests.unit.worker.lane.delegating import (
    DelegatingStage,
    check_tree,
    delegate,
    finish,
    wrapped,
)
from tests.unit.worker.lane.tree_histories import grown, nested, squeezed
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import done, terminals, until

pytestmark = pytest.mark.wide

SOME, LONG = 8, 84
SHAPES = [(3, 2), (5, 4), (9, 8), (33, 64), (70, 64)]  # attempts, and parallel children
TABLE = {*SHAPES, *product((3, 5, 9), (2, 4, 8, 64))}


@pytest.mark.parametrize(("limit", "children"), SHAPES)
def test_a_tree_stays_within_its_budget_and_uses_it(limit: int, children: int) -> None:
    for seed in range(SOME if children < 64 else 2):
        run(squeezed(limit, children, seed))


@pytest.mark.long
@pytest.mark.parametrize(("limit", "children"), sorted(TABLE))
def test_a_thousand_trees_stay_within_their_budgets(limit: int, children: int) -> None:
    for seed in range(LONG):
        run(squeezed(limit, children, seed))


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_of_sixty_four_ends_although_workers_are_killed(seed: int) -> None:
    run(grown(seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_twenty_trees_of_sixty_four_end_although_workers_are_killed(seed: int) -> None:
    run(grown(seed))


def test_runs_that_wait_for_children_can_end() -> None:
    for seed in range(SOME):
        run(nested(seed))


def test_a_minimum_stays_reserved_by_a_step_whose_lane_was_opened_again_while_it_was_asked() -> (
    None
):
    run(squeezed(3, 2, 275))


@on_virtual_time
async def test_equal_parts_are_what_is_left_but_for_the_reserved_minimum() -> None:
    steps = (actions(*(delegate(f"c{n}") for n in range(3))), actions(says("Joined.")))
    stage = await DelegatingStage.opened(
        "r-1", steps=steps, split="equal", asked={"budget": {"attempts": 7}}
    )
    await until(lambda: done(stage.broker, ["r-1"]))
    await stage.end()
    check_tree(stage)
    caps = [asked_call["cap"] for asked_call in stage.asked_calls()]
    assert caps == [2, 2, 1]


@on_virtual_time
async def test_a_run_within_a_cap_leaves_itself_a_step() -> None:
    deeper = actions(*(delegate(f"d{n}") for n in range(4)))
    steps = (actions(delegate("a", agent="support"), delegate("b")), actions(says("Joined.")))
    stage = DelegatingStage(steps, split="equal")
    stage.provider.fallback = lambda name, number: (
        wrapped() if name != "r-1.call.1.0" else finish(wrapped()) if number else deeper
    )
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": 9})
    await until(lambda: done(stage.broker, ["r-1"]))
    await stage.end()
    check_tree(stage)
    assert terminals(stage.broker)["r-1.call.1.0"] == "result"
    assert terminals(stage.broker)["r-1"] == "result"
