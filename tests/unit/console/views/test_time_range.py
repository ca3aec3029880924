"""What the address of a page says of its time."""

import pytest

from services.console.views.filters import FilterFault
from services.console.views.time_range import STEPS_MAX, TimeRange, time_range_of
from services.console.views.units import KEPT_MINUTES
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS


def range_of(**query: str) -> TimeRange:
    found = time_range_of(query, NOON_MS)
    assert isinstance(found, TimeRange), found
    return found


@pytest.mark.parametrize(
    ("query", "minutes"),
    [
        ({}, 60),
        ({"range": "15m"}, 15),
        ({"range": "24h"}, 1440),
        ({"range": "today"}, 721),
        ({"from": "2026-11-21T11:00:00Z", "to": "2026-11-21T11:30:00Z"}, 30),
        ({"from": "30m"}, 30),
        ({"from": "1d"}, KEPT_MINUTES),
    ],
)
def test_a_time_is_a_name_or_from_and_to(query: dict[str, str], minutes: int) -> None:
    found = range_of(**query)

    assert found.minutes == minutes
    assert found.steps <= STEPS_MAX + 1
    assert found.first_ms % (found.step_minutes * MINUTE_MS) == 0
    assert found.charted_end_ms - found.step_minutes * MINUTE_MS <= found.end_ms
    assert found.end_ms < found.charted_end_ms
    assert found.charted_minutes > minutes - found.step_minutes


@pytest.mark.parametrize(
    "query",
    [
        {"range": "1w"},
        {"range": ""},
        {"range": "1h", "from": "1h"},
        {"from": "soon"},
        {"from": "2d"},
        {"from": "2026-11-21T11:00:00Z", "to": "2026-11-21T11:00:00Z"},
        {"to": "2h"},
    ],
)
def test_what_is_no_time_is_a_fault(query: dict[str, str]) -> None:
    assert isinstance(time_range_of(query, NOON_MS), FilterFault)


def test_what_a_column_links_to_is_that_column() -> None:
    found = range_of(**{"from": "2026-11-21T11:00:00Z", "to": "2026-11-21T11:01:00Z"})

    assert (found.minutes, found.first_ms) == (1, NOON_MS - 60 * MINUTE_MS)
    assert dict(found.pairs) == {"from": "2026-11-21T11:00:00Z", "to": "2026-11-21T11:01:00Z"}
    assert found.title == "2026-11-21 11:00 to 11:01"


def test_a_title_has_both_days_where_there_are_two() -> None:
    assert range_of(**{"from": "30m"}).title == "2026-11-21 11:30 to 12:00"
    assert range_of(**{"from": "1d"}).title.startswith("2026-11-20 12:00 to 2026-11-21 ")
