"""Each promise broken on purpose turns some history red; a suite that stays green is not done."""

import pytest

from tests.mutations.mutations import MUTATIONS, Mutation
from tests.simulation.judge import judge

SEEDS_MAX = 400  # most mutations are found by the first ten, the rarest by one in forty


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_found(mutation: Mutation) -> None:
    with mutation.patch():
        red = next((n for n in mutation.histories(SEEDS_MAX) if not judge(n).is_fine), None)

    assert red is not None, f"{SEEDS_MAX} histories stay green"
    assert judge(red).complaints == (), "without the mutation it is fine"
