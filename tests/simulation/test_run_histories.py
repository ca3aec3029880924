"""Some histories with runs; `make simulate AGENTS=1` plays thousands."""

import pytest

from answerbus.registry import Registry
from services.worker.dialects.schema_cache import SchemaCache
from tests.simulation.agents import setting
from tests.simulation.judge import judge

SEEDS = 24


@pytest.mark.parametrize("first", range(0, SEEDS, 8))
def test_promises_hold_over_any_history_with_runs(first: int) -> None:
    for seed in range(first, first + 8):
        verdict = judge(seed, runs=True)

        assert verdict.complaints == (), f"seed {seed}\n{verdict.timeline}"


@pytest.mark.parametrize("seed", [68, 3341, 8916])
def test_a_history_that_was_broken_once_is_clean(seed: int) -> None:
    """A choice that timed out before a crash; what a tool asked, read after its run had ended."""
    verdict = judge(seed, runs=True)
    assert verdict.complaints == (), verdict.timeline


def test_the_same_seed_makes_the_same_history_alone_and_after_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in (3, 5):
        monkeypatch.setattr(setting, "_SCHEMAS", SchemaCache(Registry()))
        alone = str(judge(seed, runs=True).timeline)
        assert str(judge(seed, runs=True).timeline) == alone


def test_histories_come_to_all_that_runs_do() -> None:
    """Or they would prove nothing."""
    message = "".join(str(judge(seed, runs=True).timeline) for seed in range(12))

    for what in ("STEP", "TOOL_CALL", "ok", "timed_out", "invalid_args", "unknown_tool"):
        assert what in message
    for what in ("child run-", "ASKS ", "not_run", "child best-", "children_failed"):
        assert what in message
    for effect in ("approved", "denied", "cancelled", "remembered", "nothing"):
        assert f": {effect} " in message
