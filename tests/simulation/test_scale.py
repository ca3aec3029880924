"""The large cluster of scale.py, small: what it counts is what happens there."""

import pytest

from tests.simulation import scale


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "CALM_S", 15.0)
    monkeypatch.setattr(scale, "AFTER_S", 80.0)
    monkeypatch.setattr(scale, "OUTAGE_S", 60.0)


def test_workers_that_join_and_leave_repeat_no_call() -> None:
    for name in ("one worker in ten joins", "one worker in ten leaves"):
        found = scale.play(6, 3, 2.0, scale.TROUBLES[name], seed=1)
        assert found["requests"] == 190
        assert found["calls_repeated"] == found["calls_in_vain"] == 0


def test_lost_workers_hold_up_their_lanes_for_a_session() -> None:
    found = scale.play(6, 3, 2.0, scale.TROUBLES["a third of the workers is lost"], seed=1)
    assert scale.SESSION_S <= found["longest_wait_s"] <= scale.SESSION_S + 20
    assert scale.SESSION_S <= found["normal_after_s"] <= scale.SESSION_S + 20


def test_a_provider_that_is_away_is_asked_in_vain_and_then_answers() -> None:
    found = scale.play(6, 3, 2.0, scale.TROUBLES["the provider is away for an hour"], seed=1)
    assert found["calls_repeated"] == 0
    assert 0 < found["calls_in_vain"] < 100
    assert found["longest_wait_s"] >= scale.OUTAGE_S
