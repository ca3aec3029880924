"""Whole trees of unlike agents, with models that ask for what there is and for what there is not.

`LONG` histories run by `make test-long`, `SOME` of them always.
"""

from collections import Counter

import pytest

from tests.unit.worker.lane.mixed_trees import grown_wild
from tests.unit.worker.lane.virtual import run

pytestmark = pytest.mark.wide

SOME, LONG = 16, 1_000


def counted_histories(seeds: range) -> Counter[str]:
    """How their calls ended, and which agents answered with children of their own."""
    found: Counter[str] = Counter()

    async def one(seed: int) -> None:
        stage = await grown_wild(seed)
        found.update(outcome["kind"] for outcome in stage.ended().values())
        ran = [one for one in stage.outcomes() if one["kind"] == "result" and one.get("run")]
        found.update(one["run"]["agent"]["name"] for one in ran if one["run"]["children"])

    for seed in seeds:
        run(one(seed))
    return found


def test_a_tree_of_any_agents_keeps_what_is_promised() -> None:
    found = counted_histories(range(SOME))

    assert {"ok", "invalid_args", "not_run", "unknown_tool", "dead_letter"} <= found.keys()
    assert {"planner", "best"} <= found.keys(), "also an agent that chooses, within another's tree"


@pytest.mark.long
def test_a_thousand_trees_of_any_agents_keep_what_is_promised() -> None:
    counted_histories(range(SOME, SOME + LONG))
