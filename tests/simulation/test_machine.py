"""In each history lanes go through the states that their table says."""

import pytest

from tests.simulation.judge import judge
from tests.simulation.shadow import shadowed


@pytest.mark.parametrize("first", range(40, 70, 10))
def test_lanes_and_their_table_agree_at_each_event(first: int) -> None:
    for seed in range(first, first + 10):
        with shadowed() as shadow:
            verdict = judge(seed)

        assert shadow.complaints == [], f"seed {seed}\n{verdict.timeline}"
        assert shadow.met
