"""Some histories with runs; `make simulate AGENTS=1` plays thousands."""

import time
from itertools import count

import pytest

from answerbus.registry import Registry
from services.worker.dialects.schema_cache import SchemaCache
from tests.simulation.agents import setting
from tests.simulation.judge import judge

SEEDS = 24
HISTORIES_MAX = 200  # until all is met; the rarest is met by one in thirty
CALLS = ("STEP", "TOOL_CALL", "ok", "timed_out", "invalid_args", "unknown_tool", "not_run")
QUESTIONS = ("INPUT_REQUESTED", "TOOL_CONTINUE", " with an answer", "expired")
MET = (*CALLS, *QUESTIONS, "child run-", "child best-", "children_failed", "ASKS ")
EFFECTS = ("approved", "denied", "answered", "invalid", "cancelled", "remembered", "nothing")


@pytest.mark.parametrize("first", range(0, SEEDS, 8))
def test_promises_hold_over_any_history_with_runs(first: int) -> None:
    for seed in range(first, first + 8):
        verdict = judge(seed, runs=True)

        assert verdict.complaints == (), f"seed {seed}\n{verdict.timeline}"


@pytest.mark.parametrize("seed", [68, 3341, 7056, 8916, 50387, 50922, 114204])
def test_a_history_that_was_broken_once_is_clean(seed: int) -> None:
    """A choice that timed out before a crash; what a tool asked, late, or without labels."""
    verdict = judge(seed, runs=True)
    assert verdict.complaints == (), verdict.timeline


def test_the_same_seed_makes_the_same_history_alone_and_after_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in (3, 5):
        monkeypatch.setattr(setting, "_SCHEMAS", SchemaCache(Registry()))
        alone, again = (str(judge(seed, runs=True).timeline) for _ in range(2))
        assert again == alone


def test_how_fast_the_machine_is_changes_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = str(judge(5, runs=True).timeline)
    moments = count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(moments)))

    slow = str(judge(5, runs=True).timeline)

    assert slow == usual


def test_histories_come_to_all_that_runs_do() -> None:
    """Or they would prove nothing."""
    missing = {*MET, *(f": {effect} " for effect in EFFECTS)}

    for seed in range(HISTORIES_MAX):
        timeline = str(judge(seed, runs=True).timeline)
        missing = {what for what in missing if what not in timeline}
        if not missing:
            return

    assert not missing
