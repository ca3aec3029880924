"""No depth of a value costs more than the others: Python 3.11 makes calls at some of them slow."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from answerbus.limits import JSON_DEPTH_MAX, REQUEST_VALUES_MAX
from services.operators.dead_letters.patch import patched, same
from services.text.digest import canonical_digest
from tests.cost.budget import ANYBODY, MARGIN, spent

pytestmark = pytest.mark.wide  # at each depth

ITEMS = REQUEST_VALUES_MAX - JSON_DEPTH_MAX
FLOATS: list[Any] = [1.5e-300] * ITEMS
LISTS: list[Any] = [[]] * ITEMS


@pytest.mark.parametrize(
    ("items", "work"),
    [
        (FLOATS, canonical_digest),
        (LISTS, canonical_digest),
        (LISTS, lambda value: patched(value, ())),
        (LISTS, lambda value: same(value, [*value])),
    ],
    ids=["digest of floats", "digest of lists", "copy", "comparison"],
)
def test_no_depth_costs_more_than_a_budget(items: list[Any], work: Callable[[Any], object]) -> None:
    value: Any = items
    for depth in range(1, JSON_DEPTH_MAX):
        assert spent(partial(work, value)).is_below(MARGIN * ANYBODY.loop_s), depth
        value = [value]
