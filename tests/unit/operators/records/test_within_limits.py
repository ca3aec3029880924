"""What is cut to what can be calculated with."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from services.operators.records.within_limits import AMOUNT_MAX, amount, moved, time_in

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
MS = timedelta(milliseconds=1)


def test_amounts() -> None:
    assert [amount(0), amount(7), amount(10**400)] == [0, 7, AMOUNT_MAX]


@pytest.mark.parametrize(
    ("at", "ms", "expected"),
    [
        (NOON, 1_500, NOON + 1_500 * MS),
        (NOON, -1_500, NOON - 1_500 * MS),
        (FIRST, -1, FIRST),
        (LAST, 1, LAST),
    ],
)
def test_a_time_is_moved_within_the_calendar(at: datetime, ms: int, expected: datetime) -> None:
    assert moved(at, ms) == expected


@pytest.mark.parametrize("digits", [18, 400])
def test_a_time_far_away_is_the_nearest_of_the_calendar(digits: int) -> None:
    assert LAST - moved(NOON, 10**digits) < MS
    assert moved(NOON, -(10**digits)) - FIRST < MS


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Honolulu"])
@pytest.mark.parametrize("at", [FIRST, NOON, LAST])
def test_a_time_in_a_zone_lies_within_the_calendar(at: datetime, zone: str) -> None:
    assert abs(time_in(ZoneInfo(zone), at) - at) <= timedelta(days=1)
    assert time_in(ZoneInfo(zone), NOON) == NOON
