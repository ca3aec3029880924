"""The geometry of charts: what is how high, where ticks stand, what a column says."""

import pytest

from services.console.figures.answer_flow import NODE_MIN_PX, FlowCount, flow
from services.console.figures.profile_strips import LEVELS, ROW_PX, ROW_PX_MAX, heat_map
from services.console.figures.tiles import change_text, level_of
from services.console.views.chart import Axis, ChartPart, columns, lines
from services.console.views.lane_grid import LaneCell, longest_waiting
from services.console.views.scale import time_ticks, top_of, value_ticks
from services.console.views.shares import shares, sparks
from services.console.views.units import Unit, duration, share, short, tick_text
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS


def axis(count: int) -> Axis:
    starts = tuple(NOON_MS + n * MINUTE_MS for n in range(count))
    return Axis(starts, MINUTE_MS, lambda span: "/?" + "&".join(f"{k}={v}" for k, v in span))


def test_columns_are_stacked_on_a_round_scale_and_say_their_values() -> None:
    chart = columns(axis(2), {"ok": [4, 0], "dead": [1, 0]}, height=60)
    first, second = chart.columns

    assert first.parts == (ChartPart("ok", 20.0, 40.0), ChartPart("dead", 10.0, 10.0))
    assert (first.x, first.width, second.x) == (0, 50, 50)
    assert first.label == "12:00–12:01: ok 4, dead 1"
    assert second.label == "12:01–12:02: nothing"
    assert first.href == "/?from=2026-11-21T12:00:00Z&to=2026-11-21T12:01:00Z"
    assert (first.begin, first.end) == ("2026-11-21T12:00:00Z", "2026-11-21T12:01:00Z")
    assert [(tick.at, tick.label) for tick in chart.y_ticks] == [(60, "0"), (30, "3"), (0, "6")]


def test_a_line_is_broken_where_there_is_no_value_and_one_value_is_seen() -> None:
    chart = lines(axis(5), {"p50": [1000, 2000, None, None, 500]}, "ms", height=100)

    joined, alone = chart.segments
    assert (joined.x1, joined.y1, joined.x2, joined.y2) == (10, 50, 30, 0)
    assert alone.x1 < 90 < alone.x2
    assert alone.y1 == alone.y2 == 75
    assert chart.columns[4].label.endswith("p50 500 ms")


@pytest.mark.parametrize(("value", "top"), [(0, 1), (1, 1), (3, 4), (41, 60), (1_001, 2_000)])
def test_the_top_of_a_scale_is_round(value: int, top: int) -> None:
    assert top_of(value) == top
    assert value_ticks(top, "count", 10)[-1].at == 0


@pytest.mark.parametrize("minutes", [15, 60, 360, 1440])
def test_ticks_are_at_round_times_and_few(minutes: int) -> None:
    ticks = time_ticks(NOON_MS + 7 * MINUTE_MS, NOON_MS + (7 + minutes) * MINUTE_MS)

    assert 3 <= len(ticks) <= 8
    assert all(int(tick.label[-2:]) % 2 == 0 or int(tick.label[-2:]) % 5 == 0 for tick in ticks)
    assert all(0 <= tick.at < 100 for tick in ticks)


@pytest.mark.parametrize("days", [5, 31, 366, 2_900_000])
def test_days_have_few_ticks_and_their_dates(days: int) -> None:
    ticks = time_ticks(NOON_MS, NOON_MS + days * 24 * 60 * MINUTE_MS)

    assert 2 <= len(ticks) <= 8
    assert all(tick.label[4] == tick.label[7] == "-" for tick in ticks)


def test_the_shares_of_a_bar_fill_it_and_are_named() -> None:
    first, second = shares(
        [("ok", "fine", 3, None), ("x", "none", 0, None), ("dead", "dead", 1, "/l")]
    )

    assert (first.x, first.width, second.x, second.width) == (0, 75, 75, 25)
    assert (first.label, second.label) == ("fine 3 (75.0 %)", "dead 1 (25.0 %)")
    assert second.href == "/l"


def test_a_course_has_a_bounded_number_of_bars() -> None:
    assert len(sparks(range(1, 1000))) <= 30
    assert sparks([0, 0]) == ()
    assert max(bar.height for bar in sparks([1, 5])) == 100


def test_a_heat_map_has_rows_only_where_something_is_and_the_longest_above() -> None:
    found = heat_map(axis(2), [[0, 1, 0, 0], [0, 0, 100, 0]], [10, 100, 1_000, 10_000])

    short_one, long_one = found.cells
    assert found.height == 2 * found.row_px
    assert ROW_PX <= found.row_px <= ROW_PX_MAX
    assert (short_one.y, long_one.y) == (found.row_px, 0)
    assert short_one.level < long_one.level == LEVELS
    assert found.columns[1].label.endswith("100 calls, 100 in up to 1.0 s, all in 1.0 s")


def test_ribbons_add_up_to_their_ends_and_the_smallest_is_seen() -> None:
    found = flow(
        [FlowCount("a", "fine", "ok", 999), FlowCount("a", "dead", "dead", 1),
         FlowCount("b", "dead", "dead", 1), FlowCount("b", "fine", "ok", 0)],
    )  # fmt: skip

    assert [(node.name, node.count) for node in found.sources] == [("a", 1_000), ("b", 1)]
    assert [(node.name, node.count) for node in found.endings] == [("fine", 999), ("dead", 2)]
    assert min(node.height for node in (*found.sources, *found.endings)) >= NODE_MIN_PX
    assert [ribbon.label for ribbon in found.ribbons] == ["a: fine 999", "a: dead 1", "b: dead 1"]
    assert flow([]).height == 0


def test_texts_beside_the_ribbons_get_the_room_that_they_need_up_to_a_limit() -> None:
    short = flow([FlowCount("text", "dead", "dead", 9)])
    long = flow([FlowCount("n" * 80, "dead: unknown profile", "dead", 1)])
    many = flow([FlowCount("a", "b", "ok", 10_000_000)])

    assert (short.sources_em, short.endings_em) == (2.64, 2.64)
    assert (long.sources_em, long.endings_em) == (12.72, 12.16)
    assert many.endings_em == 6
    assert many.sources_em == 6  # of its count, 10,000,000


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0, "ms", "0"), (3_300, "ms", "3.3 s"), (40_000, "ms", "40 s"), (80_000, "ms", "80 s"),
     (93_640, "ms", "94 s"), (600_000, "ms", "10 min"), (10_800_000, "ms", "3 h"),
     (1, "usd", "$0.000001"), (2_000, "usd", "$0.002"), (4_000_000, "usd", "$4")],
)  # fmt: skip
def test_a_tick_is_short_and_in_one_unit(value: float, unit: Unit, text: str) -> None:
    assert tick_text(value, unit) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(340, "340 ms"), (3_240, "3.2 s"), (42_000, "42 s"), (125_000, "2 min 5 s"),
     (7_260_000, "2 h 1 min"), (90_000_000, "1 d 1 h"), (None, "–")],
)  # fmt: skip
def test_a_duration_is_as_precise_as_matters(ms: float | None, text: str) -> None:
    assert duration(ms) == text


def test_numbers_are_short_where_there_is_little_room() -> None:
    assert [short(n) for n in (0, 999, 1_200, 2_500_000)] == ["0", "999", "1.2k", "2.5M"]
    assert [short(n) for n in (999_500, 999_999_999, 1.5e12, 9e15)] == ["1M", "1G", "1.5T", "9P"]
    assert [share(1, 4), share(1, 10_000), share(0, 0)] == ["25.0 %", "< 0.1 %", "–"]


def test_a_change_is_in_percent_where_that_says_something() -> None:
    assert change_text(110, 100) == "+10 %"
    assert change_text(50, 100) == "−50 %"
    assert change_text(7, 0) == "+7"
    assert change_text(5, 5) == "unchanged"
    assert [level_of(value, 1, 5) for value in (0, 1, 5)] == ["good", "warn", "bad"]


def test_of_many_lanes_those_that_wait_longest_are_shown_in_their_order() -> None:
    cells = [LaneCell(n, None, 0, 0, None if n % 2 else n * 1_000, 0, None) for n in range(100)]

    assert longest_waiting(cells[:3], 5) == cells[:3]
    assert [cell.partition for cell in longest_waiting(cells, 3)] == [94, 96, 98]
    assert [cell.partition for cell in longest_waiting(cells[1::2], 2)] == [1, 3]
