"""Each promise of children broken on purpose turns some history of trees red.

Those of trees have a budget that is squeezed; the simulation has all faults, and finds most.
"""

import pytest

from tests.mutations.children_mutations import CHILDREN_MUTATIONS
from tests.mutations.mutations import Mutation
from tests.simulation import judge as simulation
from tests.unit.worker.lane.tree_histories import judge

SEEDS_MAX = 60  # most are found by the first three
SIMULATED_MAX = 24
RARE = "what a child gives away is not taken from its cap"  # one simulated history in a hundred


@pytest.mark.parametrize("mutation", CHILDREN_MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_found(mutation: Mutation) -> None:
    with mutation.patch():
        red = next((seed for seed in range(SEEDS_MAX) if judge(seed)), None)

    assert red is not None, f"{SEEDS_MAX} histories stay green"
    assert judge(red) is None, "without the mutation it is fine"


@pytest.mark.parametrize(
    "mutation",
    [mutation for mutation in CHILDREN_MUTATIONS if mutation.name != RARE],
    ids=lambda mutation: mutation.name,
)
def test_the_simulation_finds_a_mutation(mutation: Mutation) -> None:
    seeds = range(SIMULATED_MAX)
    with mutation.patch():
        red = next((n for n in seeds if not simulation.judge(n, runs=True).is_fine), None)

    assert red is not None, f"{SIMULATED_MAX} histories stay green"
    assert simulation.judge(red, runs=True).complaints == (), "without the mutation it is fine"
