"""Dollars as they are shown."""

import pytest

from services.operators.records.money import dollars_of


@pytest.mark.parametrize(
    ("micro_usd", "text"),
    [
        (0, "$0.0000"),
        (1, "$0.000001"),
        (99, "$0.000099"),
        (100, "$0.0001"),
        (4_280, "$0.0043"),
        (1_234_500_000, "$1,234.5000"),
    ],
)
def test_an_amount_above_nothing_is_not_shown_as_nothing(micro_usd: int, text: str) -> None:
    assert dollars_of(micro_usd) == text
