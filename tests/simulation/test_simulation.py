"""A few dozen histories with every run of the quick tests; `make simulate` runs thousands."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.judge import judge

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_promises_hold_over_any_history(first: int) -> None:
    for seed in range(first, first + 10):
        verdict = judge(seed)

        assert verdict.complaints == (), f"seed {seed}\n{verdict.timeline}"


def test_promises_hold_where_only_what_moves_is_taken_away() -> None:
    """In a group by KIP-848; `python -m tests.simulation --next-rebalance` plays more."""
    for seed in range(3):
        verdict = judge(seed, next_rebalance=True)

        assert verdict.complaints == (), f"seed {seed}\n{verdict.timeline}"


def test_the_same_seed_makes_the_same_history() -> None:
    one, other = (str(judge(9).timeline) for _ in range(2))
    assert one == other


def test_another_process_makes_the_same_history() -> None:
    """Sets are in another order there."""
    message = "import sys; from tests.simulation.judge import judge; print(judge(9).timeline)"
    run = subprocess.run(
        [sys.executable, "-c", message], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert run.stdout == f"{judge(9).timeline}\n"


def test_a_timeline_tells_who_did_what_and_when() -> None:
    timeline = str(judge(9).timeline)

    for text in ("published", "is assigned", "fences", "committed", "CALL", "answered"):
        assert text in timeline


def test_the_command_plays_histories_in_several_processes() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--histories", "2", "--processes", "2"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert "0 failed" in run.stdout
