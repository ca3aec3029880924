"""A short run of chaos on a real Kafka of its own; `make chaos` runs it for longer."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.chaos.chaos import SESSION_S, Chaos, Size
from tests.chaos.faults import HOSTILE, OF_TOOLS, ORDINARY, faults
from tests.integration.fake_time import environment

SEED = 23
SIZE = Size(requests=240, workflows=32, workers=3, window_s=20.0, limit_s=120.0, partitions=6)
HOSTILE_SEED = 1
RUN_SEED = 1
HOSTILE_SIZE = replace(SIZE, window_s=42.0, limit_s=240.0, hostile=True, calm_s=30.0)
HOSTILE_SIZE = replace(HOSTILE_SIZE, tool_servers=2, runs=0.02)
RUN_SIZE = replace(SIZE, requests=120, window_s=42.0, limit_s=300.0, tool_servers=2, runs=1.0)

NOTHING: dict[str, list[str]] = {"missing": [], "bug": [], "violation": [], "late": []}


def test_the_short_run_has_faults_of_every_kind() -> None:
    assert {fault.kind for fault in faults(SEED, SIZE.workers, SESSION_S, SIZE.window_s)} == set(
        ORDINARY
    )


def test_the_short_run_with_agents_has_faults_of_every_kind() -> None:
    plan = faults(RUN_SEED, RUN_SIZE.workers, SESSION_S, RUN_SIZE.window_s, tools=2)

    assert {fault.kind for fault in plan} == {*ORDINARY, *OF_TOOLS}


def test_the_short_hostile_run_has_faults_of_every_kind() -> None:
    plan = faults(
        HOSTILE_SEED, SIZE.workers, SESSION_S, HOSTILE_SIZE.window_s, hostile=HOSTILE_SIZE.hostile
    )

    assert {fault.kind for fault in plan} == {*ORDINARY, *HOSTILE}


@pytest.mark.kafka
@pytest.mark.long
def test_no_promise_is_broken_in_a_hostile_place(tmp_path: Path) -> None:
    environment("+0")  # skips where clocks cannot be set
    outcome = Chaos(HOSTILE_SEED, HOSTILE_SIZE, tmp_path, Console(highlight=False)).run()

    assert outcome.complaints() == NOTHING, outcome.summary


@pytest.mark.kafka
@pytest.mark.long
def test_no_promise_of_runs_is_broken_by_chaos(tmp_path: Path) -> None:
    outcome = Chaos(RUN_SEED, RUN_SIZE, tmp_path, Console(highlight=False)).run()

    assert outcome.complaints() == NOTHING, outcome.summary


@pytest.mark.kafka
def test_no_promise_is_broken_by_chaos(tmp_path: Path) -> None:
    outcome = Chaos(SEED, SIZE, tmp_path, Console(highlight=False)).run()

    assert outcome.complaints() == NOTHING, outcome.summary
