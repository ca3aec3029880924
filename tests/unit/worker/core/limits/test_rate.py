"""So much per minute: never more, and not much less."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.worker.core.limits.rate import MINUTE_S, TokenBucket


def taken(bucket: TokenBucket, seconds: float, cost: int = 1, began: float = 0.0) -> list[float]:
    """When units are taken by somebody who always wants the next."""
    now, moments = began, []
    while (now := now + bucket.wait_s(cost, now)) < began + seconds:
        bucket.take(cost, now)
        moments.append(now)
    return moments


@pytest.mark.wide
@pytest.mark.parametrize("per_minute", [1, 2, 7, 19, 20, 39, 40, 41, 60, 600, 10_000])
def test_no_minute_has_more(per_minute: int) -> None:
    moments = taken(TokenBucket(per_minute), 5 * MINUTE_S)

    busiest = max(sum(1 for m in moments if at <= m < at + MINUTE_S) for at in moments[:200])
    assert busiest <= per_minute
    assert len(moments) >= 5 * per_minute * 0.97


def test_a_burst_is_a_fortieth_and_the_rest_is_paced() -> None:
    moments = taken(TokenBucket(600), 3.0)

    assert moments[:15] == [0.0] * 15
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments[14:])]
    assert gaps == [pytest.approx(60 / 585)] * len(gaps)


def test_rest_fills_the_bucket_and_no_further() -> None:
    bucket = TokenBucket(600)
    taken(bucket, 10.0)

    assert taken(bucket, 0.001, began=1_000.0) == [1_000.0] * 15


def test_what_costs_more_than_the_bucket_holds_is_paid_off_after() -> None:
    bucket = TokenBucket(6_000)
    assert bucket.wait_s(3_000, 0.0) == 0
    bucket.take(3_000, 0.0)

    assert bucket.wait_s(1, 0.0) == pytest.approx(2_851 / 97.5)


def test_what_was_not_used_can_be_used_by_others() -> None:
    bucket = TokenBucket(6_000)
    bucket.take(150, 0.0)
    bucket.put_back(125, 0.0)

    assert bucket.wait_s(125, 0.0) == 0
    assert bucket.wait_s(126, 0.0) > 0


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 30)), max_size=60))
def test_a_request_fits_after_the_wait_that_the_bucket_names(
    steps: list[tuple[int, float]],
) -> None:
    bucket, now = TokenBucket(1_000), 0.0
    for cost, pause_s in steps:
        now += bucket.wait_s(cost, now)
        assert bucket.wait_s(cost, now) == 0
        bucket.take(cost, now)
        now += pause_s
