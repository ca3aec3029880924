"""A time that is written and read again is the same millisecond, in each year."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.operators.dead_letters.moment import as_text, moment_ms

FIRST = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(min_value=FIRST.replace(tzinfo=None), timezones=st.just(UTC))


@given(MOMENTS)
def test_a_time_is_read_as_it_is_written(moment: datetime) -> None:
    at_ms = moment_ms(moment.isoformat(), 0)
    assert at_ms is not None
    assert moment_ms(as_text(at_ms), 0) == at_ms


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z"])
def test_the_first_and_the_last_moment_are_written(text: str) -> None:
    at_ms = moment_ms(text, 0)
    assert at_ms is not None
    assert as_text(at_ms).endswith(("59.999Z", "00.000Z"))


@pytest.mark.parametrize("text", ["2026-07-01", "2026-07-01T00:00:00", "2026-07-01 00:00"])
def test_a_time_without_a_zone_is_of_utc_on_each_machine(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0")
        time.tzset()
        found = moment_ms(text, 0)
    time.tzset()

    assert found == moment_ms("2026-07-01T00:00:00Z", 0)
