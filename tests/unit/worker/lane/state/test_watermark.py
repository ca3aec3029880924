"""The offset to commit never passes what is unfinished, with all gaps that a log has."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.worker.lane.state.watermark import Watermark


def test_gaps_are_passed_over() -> None:
    watermark = Watermark(position=10)
    for offset in (10, 13, 17):
        assert watermark.deliver(offset)

    watermark.finish(10)

    assert watermark.committable == 13

    watermark.finish(17)
    watermark.finish(13)

    assert watermark.committable == watermark.position == 18


def test_what_was_delivered_before_is_not_taken_again() -> None:
    watermark = Watermark(position=5)

    assert [watermark.deliver(offset) for offset in (4, 5, 5, 3, 6)] == [
        False,
        True,
        False,
        False,
        True,
    ]


def test_a_record_finished_before_it_comes_again_holds_nothing_back() -> None:
    """A call that outlived a reopening may end before its record is delivered once more."""
    watermark = Watermark(position=5)
    watermark.finish(6)

    assert watermark.deliver(5)
    assert watermark.deliver(6)
    assert watermark.committable == 5

    watermark.finish(5)

    assert watermark.committable == 7
    assert watermark._finished == set()


def test_the_last_record_may_be_finished_before_it_comes_again() -> None:
    """Nothing that follows would move the offset on."""
    watermark = Watermark(position=6)
    watermark.finish(6)
    watermark.deliver(6)

    assert watermark.committable == 7


@pytest.mark.wide
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_it_is_the_smallest_unfinished_delivered_offset(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, 5))
    watermark, unfinished, known = Watermark(start), set[int](), start
    for _ in range(data.draw(st.integers(1, 40))):
        done = data.draw(st.sampled_from([None, *sorted(unfinished)]))
        if done is not None:
            unfinished.remove(done)
            watermark.finish(done)
        else:
            known += data.draw(st.integers(0, 3))  # a gap
            watermark.deliver(known)
            unfinished.add(known)
            known += 1

        assert watermark.committable == min(unfinished, default=known if known > start else start)
