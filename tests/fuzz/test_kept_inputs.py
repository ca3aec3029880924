"""Everything holds of the inputs that the fuzzer begins from, and of those that are kept."""

from pathlib import Path

import pytest

from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

KEPT = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_seeds_and_kept_inputs_hold(target: Target) -> None:
    inputs = [*target.seeds(), *(p.read_bytes() for p in sorted((KEPT / target.name).glob("*")))]

    assert len(inputs) > len(target.seeds())
    for data in inputs:
        target.check(data)
