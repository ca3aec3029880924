"""The costliest inputs that were found are within their budgets, and so are those to begin from."""

import pytest

from tests.fuzz.cost import kept
from tests.fuzz.cost.meter import Cost
from tests.fuzz.cost.recipe import Recipe, TooLongError, text_of
from tests.fuzz.cost.search import Found, measured, work_on
from tests.fuzz.cost.targets import TARGETS, Target

KEPT = [(TARGETS[line["target"]], line["recipe"]) for line in kept.lines()]
OVER = [
    ["times", "a", 99, "b"],
    ["nested", "[", "0", "]", 99],
    ["all", "a", ["times", "§", 99, ""]],
]


def names(value: object) -> str:
    return value.name if isinstance(value, Target) else ""


@pytest.mark.parametrize(("target", "recipe"), KEPT, ids=names)
def test_the_costliest_inputs_are_within_their_budget(target: Target, recipe: Recipe) -> None:
    found = measured(target, recipe)  # again by itself where it seems too costly

    assert found is not None
    assert not found.is_too_costly, found.cost.words


def test_each_target_has_kept_inputs_and_seeds_that_mean_something_to_it() -> None:
    assert {target.name for target, _ in KEPT} == TARGETS.keys()
    for target in TARGETS.values():
        assert any(work_on(target, recipe) for recipe in target.seeds[:8]), target.name


def test_what_takes_more_than_its_budget_is_found_to() -> None:
    budget = TARGETS["request"].budget

    for cost in (Cost(9, 1.0, 0), Cost(9, 0.0, 64 * 1024 * 1024)):
        assert Found("", cost, cost.share_of(budget)).is_too_costly
    assert not Found("", Cost(9, 0.02, 1_000), Cost(9, 0.02, 1_000).share_of(budget)).is_too_costly


@pytest.mark.parametrize("recipe", OVER)
def test_a_recipe_is_a_text_of_a_bounded_length(recipe: Recipe) -> None:
    assert len(text_of(recipe, 500)) >= 99
    with pytest.raises(TooLongError):
        text_of(recipe, 98)


def test_a_recipe_counts_its_repetitions() -> None:
    assert text_of(["all", "x", ["times", "a§", 3, ","], "y"], 99) == "xa0,a1,a2y"
    assert text_of(["nested", "[", ["times", "1", 2, ","], "]", 2], 99) == "[[1,1]]"
