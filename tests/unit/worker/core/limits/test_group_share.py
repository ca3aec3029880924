"""The parts of all workers are the whole, for any distribution of lanes; each worker goes on."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.worker.core.limits.concurrency import Concurrency
from services.worker.core.limits.group_share import GroupShare
from services.worker.core.limits.rate import MINUTE_S, TokenBucket

PARTITIONS = 12
PER_MINUTE = 600
STEP_S = 0.05

Assignment = Mapping[int, frozenset[int]]
"""The lanes of each worker."""


@st.composite
def assignments(draw: st.DrawFn) -> tuple[int, list[GroupShare]]:
    partitions = draw(st.integers(1, 64))
    owners = draw(st.lists(st.integers(0, 20), min_size=partitions, max_size=partitions))
    workers = {owner: {n for n, of in enumerate(owners) if of == owner} for owner in set(owners)}
    return partitions, [GroupShare.of(lanes, partitions) for lanes in workers.values()]


@settings(deadline=None)
@given(assignments(), st.integers(1, 10_000))
def test_rates_add_up_to_the_whole(drawn: tuple[int, list[GroupShare]], per_minute: int) -> None:
    partitions, shares = drawn
    exact = [Fraction(per_minute * len(share.lanes), partitions) for share in shares]

    assert sum(exact) == per_minute
    assert [share.rate_part(per_minute) for share in shares] == pytest.approx(
        list(map(float, exact))
    )
    assert all(share.rate_part(per_minute) > 0 for share in shares)


@settings(deadline=None)
@given(assignments(), st.integers(1, 10_000))
def test_slots_add_up_to_the_whole_but_for_the_one_that_each_worker_has(
    drawn: tuple[int, list[GroupShare]], most: int
) -> None:
    partitions, shares = drawn
    slots = [share.slots_part(most) for share in shares]

    assert all(own >= 1 for own in slots)
    if most >= partitions:
        assert sum(slots) == most
    else:
        assert most <= sum(slots) <= most + len(shares)


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(1, 10_000))
def test_one_worker_alone_has_everything(partitions: int, limit: int) -> None:
    share = GroupShare.of(range(partitions), partitions)

    assert (share.rate_part(limit), share.slots_part(limit)) == (limit, limit)


def test_equal_lanes_have_equal_slots_to_one() -> None:
    each = [GroupShare.of([n], PARTITIONS).slots_part(100) for n in range(PARTITIONS)]

    assert (sum(each), max(each) - min(each)) == (100, 1)


def test_a_limit_below_the_number_of_lanes_keeps_no_worker_from_its_work() -> None:
    """10 over 12 lanes in 12 workers."""
    shares = [GroupShare.of([n], PARTITIONS) for n in range(PARTITIONS)]
    bucket = TokenBucket(shares[0].rate_part(10))
    bucket.take(1, 0.0)

    assert [share.slots_part(10) for share in shares] == [1] * PARTITIONS
    assert bucket.wait_s(1, 0.0) == pytest.approx(MINUTE_S * 12 / 10 / 0.975)


def test_partitions_beyond_the_lanes_count_for_nothing() -> None:
    assert GroupShare.of([0, 1, 12, 13], PARTITIONS) == GroupShare.of([0, 1], PARTITIONS)
    assert GroupShare.of([12, 13], PARTITIONS).is_empty


def even(workers: int) -> Assignment:
    return {w: frozenset(range(w, PARTITIONS, workers)) for w in range(workers)}


def saturated(history: list[tuple[float, Assignment]], end_s: float) -> list[float]:
    """When calls began, of workers that always have one to make; each begins new with nothing."""
    buckets: dict[int, TokenBucket] = {}
    moments = []
    changes = [*history, (end_s, {})]
    for (start, assignment), (stop, _) in pairwise(changes):
        buckets = {w: b for w, b in buckets.items() if w in assignment}
        for worker, lanes in assignment.items():
            rate = GroupShare(lanes, PARTITIONS).rate_part(PER_MINUTE)
            buckets.setdefault(worker, TokenBucket(rate)).set_rate(rate, start)
        for step in range(int((stop - start) / STEP_S)):
            now = start + step * STEP_S
            for bucket in buckets.values():
                while not bucket.wait_s(1, now):
                    bucket.take(1, now)
                    moments.append(now)
    return sorted(moments)


def most_in_a_minute(moments: list[float]) -> int:
    first = most = 0
    for last, moment in enumerate(moments):
        while moments[first] <= moment - MINUTE_S:
            first += 1
        most = max(most, last - first + 1)
    return most


def within(moments: list[float], start: float, stop: float) -> int:
    return sum(start <= moment < stop for moment in moments)


def test_600_a_minute_with_one_worker_then_four_then_one() -> None:
    moments = saturated([(0.0, even(1)), (180.0, even(4)), (360.0, even(1))], 540.0)
    steady = [within(moments, start, start + MINUTE_S) for start in (60.0, 240.0, 300.0, 420.0)]

    assert most_in_a_minute(moments) <= PER_MINUTE + PER_MINUTE / 4
    assert min(steady) >= 0.975 * PER_MINUTE - 1
    assert max(steady) <= PER_MINUTE


@pytest.mark.wide
@settings(deadline=None, max_examples=25)  # each is thousands of steps, on any machine
@given(st.lists(st.integers(1, 6), min_size=2, max_size=5))
def test_however_workers_come_and_go_a_minute_has_the_limit_and_one_share_at_most(
    counts: list[int],
) -> None:
    """Each of them stays for a minute."""
    history = [(MINUTE_S * n, even(count)) for n, count in enumerate(counts)]
    moments = saturated(history, MINUTE_S * len(counts))

    assert most_in_a_minute(moments) <= PER_MINUTE + PER_MINUTE / min(counts)


def test_what_was_learnt_of_overload_is_kept_in_proportion() -> None:
    fresh, learned = Concurrency(100), Concurrency(100)
    learned.throttled(0.0)
    before = learned.limit
    for one in (fresh, learned):
        one.set_most(25)
    shrunk = (fresh.limit, learned.limit)
    for one in (fresh, learned):
        one.set_most(100)

    assert before == 70
    assert shrunk == (25, 17)
    assert (fresh.limit, learned.limit) == (100, 70)
