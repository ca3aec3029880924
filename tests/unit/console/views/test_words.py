"""Durations and times in words."""

import pytest

from services.console.views.words import age_text, clock_text
from tests.unit.operators.stored_examples import NOON_MS


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (95.9, "95 s"), (120, "2 min"), (7_300, "2 h"), (200_000, "2 d")],
)
def test_ages(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_times_of_another_day_have_their_date() -> None:
    assert clock_text(NOON_MS, NOON_MS + 1) == "12:00 UTC"
    assert clock_text(NOON_MS, NOON_MS + 2 * 86_400_000) == "2026-11-21 12:00 UTC"
