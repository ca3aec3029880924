import math
import random

import pytest

from tests.benchmarks.arithmetic import (
    Span,
    first_at_least,
    in_flight_over_time,
    in_flight_share,
    percentile,
)
from tests.benchmarks.conservation import unsettled
from tests.benchmarks.journal import HUNG_UP, Call
from tests.benchmarks.latency import Latency, drawing
from tests.benchmarks.watermark import Watermark


def test_a_percentile_is_a_value_that_so_many_do_not_exceed() -> None:
    values = list(range(1, 101))
    random.Random(1).shuffle(values)

    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert percentile([7.0], 0.99) == 7.0
    assert math.isnan(percentile([], 0.5))


def test_only_what_is_in_the_window_counts_as_in_flight() -> None:
    window = Span(10.0, 20.0)
    calls = [Span(0.0, 30.0), Span(5.0, 15.0), Span(15.0, 20.0), Span(0.0, 10.0), Span(20.0, 21.0)]

    assert in_flight_share(calls, window, limit=2) == (10 + 5 + 5) / 20


def test_so_many_are_in_flight_again_when_the_last_of_them_begins() -> None:
    calls = [Span(0.0, 4.0), Span(1.0, 2.0), Span(3.0, 9.0), Span(5.0, 9.0)]

    assert first_at_least(calls, 2, since=0.0) == 1.0
    assert first_at_least(calls, 2, since=1.5) == 3.0
    assert math.isnan(first_at_least(calls, 3, since=0.0))


def test_calls_over_time_add_up_to_the_time_they_took() -> None:
    calls = [Span(1.0, 2.25), Span(1.5, 4.0)]

    curve = in_flight_over_time(calls, step_s=0.5)

    assert curve[:2] == [(0.25, 1.0), (0.75, 2.0)]
    assert sum(calls_in * 0.5 for _, calls_in in curve) == pytest.approx(1.25 + 2.5)
    assert in_flight_over_time([], step_s=0.5) == []


def test_the_log_normal_has_its_median_its_spread_and_its_cap() -> None:
    latency = Latency("log-normal")
    table = latency.table()

    assert percentile(table, 0.5) == pytest.approx(1.0, rel=0.001)
    assert percentile(table, 0.841345) == pytest.approx(math.exp(0.8), rel=0.001)
    assert max(table) == latency.cap_s
    assert latency.mean_s == pytest.approx(math.exp(0.8**2 / 2), rel=0.01)


def test_a_call_always_takes_as_long_and_another_seed_takes_another_time() -> None:
    draw, again, other = (drawing(Latency("log-normal"), seed=seed) for seed in (1, 1, 2))
    constant = drawing(Latency("constant", 0.5), seed=1)
    calls = [f"r-{n}".encode() for n in range(2_000)]

    drawn = [draw(call) for call in calls]

    assert drawn == [again(call) for call in calls]
    assert drawn != [other(call) for call in calls]
    assert percentile(drawn, 0.5) == pytest.approx(1.0, rel=0.1)
    assert {constant(call) for call in calls} == {0.5}


def test_the_baseline_commits_what_is_done_below_all_that_is_under_way() -> None:
    mark = Watermark()
    for offset in (4, 5, 9):
        mark.begin(offset)
    taken = [mark.take()]
    for offset in (5, 4, 9):
        mark.end(offset)
        taken.append(mark.take())

    assert taken == [4, None, 9, 10]


def test_a_call_is_unsettled_from_its_begin_until_its_terminal_is_seen() -> None:
    calls = [
        Call("runs", Span(1.0, 9.0), 200),
        Call("was cut", Span(1.0, 5.01), HUNG_UP),
        Call("was cut long ago", Span(1.0, 2.0), HUNG_UP),
        Call("answered", Span(1.0, 4.9), 200),
        Call("settled", Span(1.0, 2.0), 200),
        Call("begins later", Span(6.0, 7.0), 200),
    ]
    seen_at = {"runs": 9.1, "answered": 5.1, "settled": 2.1, "begins later": 7.1}

    assert unsettled(calls, seen_at, 5.0) == 3
    assert unsettled(calls, seen_at, 5.5) == 1
