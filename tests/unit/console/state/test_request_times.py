"""How old the request is that a lane is at, from thinned samples."""

import pytest

from services.console.state.request_times import OLD_STEP_MS, SAMPLES_MAX, STEP_MS, RequestTimes


def test_a_request_is_as_old_as_the_sample_before_it_or_as_the_first_that_is_kept() -> None:
    times = RequestTimes()
    assert times.written_ms(0) is None
    for offset, at_ms in ((10, 0), (11, 10), (12, STEP_MS), (20, 9 * STEP_MS)):
        times.take(offset, at_ms)

    assert [times.written_ms(offset) for offset in (9, 10, 11, 12, 19, 99)] == [
        0, 0, 0, STEP_MS, STEP_MS, 9 * STEP_MS,
    ]  # fmt: skip


@pytest.mark.wide
def test_it_stays_small_and_is_exact_for_the_newest() -> None:
    times, count = RequestTimes(), 100 * SAMPLES_MAX
    for n in range(count):
        times.take(n, n * STEP_MS)

    assert times.written_ms(count - 1) == (count - 1) * STEP_MS
    old = times.written_ms(count // 2)
    assert old is not None
    assert 0 <= count // 2 * STEP_MS - old <= 4 * OLD_STEP_MS
    assert len(times._offsets) <= SAMPLES_MAX
