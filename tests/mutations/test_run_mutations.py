"""Each promise of runs broken on purpose turns some history of runs red."""

import pytest

from tests.mutations.mutations import Mutation
from tests.mutations.run_mutations import RUN_MUTATIONS
from tests.simulation.judge import judge

SEEDS_MAX = 300  # most are found by the first three, a call before its step by one in a hundred


@pytest.mark.parametrize("mutation", RUN_MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_found(mutation: Mutation) -> None:
    with mutation.patch():
        seeds = mutation.histories(SEEDS_MAX)
        red = next((n for n in seeds if not judge(n, runs=True).is_fine), None)

    assert red is not None, f"{SEEDS_MAX} histories stay green"
    assert judge(red, runs=True).complaints == (), "without the mutation it is fine"
