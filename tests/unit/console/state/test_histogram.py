"""Quantiles from buckets: near enough, and bounded."""

import random

import pytest

from services.console.state.histogram import Histogram


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_a_quantile_is_within_an_eighth_of_the_true_one(share: float) -> None:
    chance, histogram = random.Random(7), Histogram()
    values = sorted(chance.lognormvariate(7, 1.2) for _ in range(5_000))
    for value in values:
        histogram.add(value)

    found = histogram.quantile_ms(share)

    assert found == pytest.approx(values[int(share * len(values))], rel=0.125)


def test_nothing_counted_has_no_quantile_and_the_longest_has_an_end() -> None:
    histogram = Histogram()
    assert histogram.quantile_ms(0.5) is None

    histogram.add(10**12)
    assert histogram.quantile_ms(0.5) == pytest.approx(560_000, rel=0.01)


def test_those_of_two_minutes_are_added() -> None:
    first, second = Histogram(), Histogram()
    first.add(100)
    second.add(100)
    second.add(5_000)
    first.merge(second)

    assert first.total == 3
    assert sum(first.coarse(4)) == 3
