"""Each promise broken on purpose turns some history red; a suite that stays green is not done."""

import pytest

from tests.mutations.mutations import MUTATIONS, Mutation
from tests.simulation.judge import judge

SEEDS_MAX = 160


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_found(mutation: Mutation) -> None:
    """Without one, the same histories are fine: tests/simulation runs the first of them."""
    with mutation.patch():
        assert any(not judge(seed).is_fine for seed in range(SEEDS_MAX))
