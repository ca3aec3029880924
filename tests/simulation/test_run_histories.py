"""Some histories of runs; `python -m tests.simulation.run_histories` has as many as you like."""

import pytest

from tests.simulation.runs import judge

SEEDS = 6


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_promise_holds(seed: int) -> None:
    assert judge(seed) == ()
