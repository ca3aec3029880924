"""What is known of a clock that can only be asked from afar."""

import math

from hypothesis import given
from hypothesis import strategies as st

from services.worker.core.broker_time import DRIFT, ClockOffset, measured, narrowed

SECONDS = st.floats(0, 5)
ASKED = st.lists(st.tuples(SECONDS, SECONDS, st.floats(0, 100)), min_size=1, max_size=20)
ERROR_S = 1e-6  # of floating point


@given(distance_s=st.floats(-1e9, 1e9), asked=ASKED, drift=st.floats(-DRIFT, DRIFT))
def test_the_known_interval_holds_the_truth_and_is_no_wider_than_the_last_answer(
    distance_s: float, asked: list[tuple[float, float, float]], drift: float
) -> None:
    """`asked`: how long a question and its answer took, and the pause before."""
    known: ClockOffset | None = None
    now_s = 1_000.0
    for there_s, back_s, pause_s in asked:
        before_s = now_s + pause_s
        appended_s = before_s + there_s
        now_s = appended_s + back_s
        shown_s = appended_s + distance_s + drift * (appended_s - 1_000)
        told_s = math.floor(shown_s * 1000) / 1000
        new = measured(told_s, before_s, now_s)
        known = narrowed(known, new)
        truth_s = distance_s + drift * (appended_s - 1_000)

        assert known.low_s - ERROR_S <= truth_s + DRIFT * back_s
        assert truth_s - DRIFT * back_s - 0.002 <= known.high_s + ERROR_S
        assert known.width_s <= new.width_s + ERROR_S


def test_a_clock_that_was_moved_is_believed_at_once() -> None:
    known = narrowed(None, measured(500.0, 100.0, 100.01))
    moved = narrowed(known, measured(900.0, 101.0, 101.5))

    assert (moved.low_s, moved.high_s) == (798.5, 799.001)


def test_a_slow_answer_takes_nothing_from_what_is_known() -> None:
    known = narrowed(None, measured(500.0, 100.0, 100.01))
    later = narrowed(known, measured(505.0, 101.0, 109.0))

    assert abs(later.middle_s - 400) < 0.02
    assert later.width_s < 0.05
