"""Fewer calls at once for a provider that is overloaded, and more again when it is not."""

import random

from services.worker.core.limits.concurrency import CALLS_BEFORE_JUDGING, Concurrency


def served(limits: Concurrency, count: int, duration_s: float = 1.0) -> int:
    for _ in range(count):
        limits.served(duration_s)
    return limits.limit


def test_a_provider_that_serves_is_used_to_the_full() -> None:
    assert served(Concurrency(100), 1_000) == 100


def test_a_refusal_takes_a_third_and_a_burst_of_them_no_more() -> None:
    limits = Concurrency(100)
    for number in range(50):
        limits.throttled(now=number / 100)
    assert limits.limit == 70

    limits.throttled(now=2.0)
    assert limits.limit == 49


def test_it_recovers_in_some_rounds() -> None:
    limits = Concurrency(100)
    limits.throttled(now=0.0)

    assert served(limits, 71) == 74
    assert served(limits, 5 * 100) == 100


def test_one_call_is_always_left() -> None:
    limits = Concurrency(3)
    for number in range(20):
        limits.throttled(now=10.0 * number)

    assert limits.limit == 1
    assert served(limits, 1) == 2


def test_a_slow_provider_gets_fewer_but_never_few() -> None:
    limits = Concurrency(100)
    served(limits, 2_000)
    fewer = served(limits, 200, duration_s=20.0)

    assert 25 <= fewer < 100
    assert served(limits, 3_000, duration_s=20.0) == 100, "what lasts is what it takes"


def test_latencies_that_merely_scatter_cost_nothing() -> None:
    chance = random.Random(7)
    limits = Concurrency(1_000)
    for _ in range(20_000):
        limits.served(min(chance.lognormvariate(0.0, 0.8), 20.0))
        assert limits.limit == 1_000


def test_the_first_calls_are_not_judged() -> None:
    limits = Concurrency(10)
    served(limits, 5, duration_s=0.01)

    assert served(limits, CALLS_BEFORE_JUDGING - 6, duration_s=9.0) == 10
