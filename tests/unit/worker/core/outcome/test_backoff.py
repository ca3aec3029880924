"""Waits grow, with full jitter, up to a ceiling that no number of failures passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.worker.core.outcome.decide import Backoff

BACKOFF = Backoff(first_s=1.0, factor=2.0, max_s=60.0)


@pytest.mark.parametrize(
    ("failures", "jitter", "delay_s"),
    [(1, 1.0, 1.0), (2, 1.0, 2.0), (3, 0.5, 2.0), (7, 1.0, 60.0), (0, 1.0, 1.0), (3, 0.0, 0.0)],
)
def test_the_delay(failures: int, jitter: float, delay_s: float) -> None:
    assert BACKOFF.delay_s(failures, jitter) == delay_s


@given(st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_no_number_of_failures_is_too_much(failures: int, jitter: float) -> None:
    assert 0 <= BACKOFF.delay_s(failures, jitter) <= 60
