"""Each promise of runs broken on purpose turns some history of runs red."""

import pytest

from tests.mutations.mutations import Mutation
from tests.mutations.run_mutations import RUN_MUTATIONS
from tests.simulation.runs import judge

SEEDS_MAX = 60  # most are found by the first three


@pytest.mark.parametrize("mutation", RUN_MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_found(mutation: Mutation) -> None:
    with mutation.patch():
        red = next((seed for seed in range(SEEDS_MAX) if judge(seed)), None)

    assert red is not None, f"{SEEDS_MAX} histories stay green"
    assert judge(red) == (), "without the mutation it is fine"
