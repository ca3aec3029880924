"""Each promise of children broken on purpose turns some history of trees red."""

import pytest

from tests.mutations.children_mutations import CHILDREN_MUTATIONS
from tests.mutations.mutations import Mutation
from tests.unit.worker.lane.tree_histories import judge

SEEDS_MAX = 60  # most are found by the first three


@pytest.mark.parametrize("mutation", CHILDREN_MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_found(mutation: Mutation) -> None:
    with mutation.patch():
        red = next((seed for seed in range(SEEDS_MAX) if judge(seed)), None)

    assert red is not None, f"{SEEDS_MAX} histories stay green"
    assert judge(red) is None, "without the mutation it is fine"
