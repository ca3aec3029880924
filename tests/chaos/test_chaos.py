"""A short run of chaos on a real Kafka of its own; `make chaos` runs it for longer."""

from pathlib import Path

import pytest
from rich.console import Console

from tests.chaos.chaos import SESSION_S, Chaos, Size
from tests.chaos.faults import ORDINARY, faults

SEED = 23
SIZE = Size(requests=240, workflows=32, workers=3, window_s=20.0, limit_s=120.0, partitions=6)


def test_the_short_run_has_faults_of_every_kind() -> None:
    assert {fault.kind for fault in faults(SEED, SIZE.workers, SESSION_S, SIZE.window_s)} == set(
        ORDINARY
    )


@pytest.mark.kafka
def test_no_promise_is_broken_by_chaos(tmp_path: Path) -> None:
    outcome = Chaos(SEED, SIZE, tmp_path, Console(highlight=False)).run()

    assert outcome.complaints() == {"missing": [], "bug": [], "violation": []}, outcome.summary
