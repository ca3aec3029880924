"""What of a partition is done survives its server, for any order of ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerbus.tools.core.positions import PENDING_MAX, PartitionPositions

METADATA_BYTES_MAX = 4_096  # offset.metadata.max.bytes of a broker that nobody has configured


@given(
    st.lists(st.integers(0, 400), unique=True, min_size=1, max_size=80).map(sorted),
    st.sets(st.integers(0, 79)),
    st.integers(0, 10**12),
)
def test_a_successor_runs_what_is_not_done_and_nothing_else(
    steps: list[int], done: set[int], start: int
) -> None:
    offsets = [start + step for step in steps]  # with gaps, where transactions ended
    first = PartitionPositions(start)
    for offset in offsets:
        assert first.begin(offset)
    for index in sorted(done, reverse=True):
        if index < len(offsets):
            first.finish(offsets[index])

    committed = first.position
    second = PartitionPositions(committed.offset, committed.text)
    again = [offset for offset in offsets if offset >= committed.offset and second.begin(offset)]

    assert again == [offset for index, offset in enumerate(offsets) if index not in done]
    assert second.begin(offsets[-1] + 1)


def test_as_many_as_may_be_pending_fit_kafkas_metadata() -> None:
    positions = PartitionPositions(0)
    for number in range(PENDING_MAX):
        positions.begin(number * 10**7)

    assert positions.pending == PENDING_MAX
    assert len(positions.position.text.encode()) < METADATA_BYTES_MAX


def test_what_a_predecessor_left_and_age_has_deleted_is_not_waited_for() -> None:
    first = PartitionPositions(0)
    for offset in range(10):
        first.begin(offset)
    for offset in range(5, 10):
        first.finish(offset)
    second = PartitionPositions(first.position.offset, first.position.text)

    assert second.begin(10)  # the broker's first record by now
    second.finish(10)

    assert second.position.offset == 11


@pytest.mark.parametrize(
    "text", ["", "2.a", "1", "1.", "1..1", "1.-1", "1.é", "hello", "1.a.b.", "1 .a"]
)
def test_a_text_that_is_not_ours_says_nothing(text: str) -> None:
    positions = PartitionPositions(7, text)

    assert positions.begin(7)
    assert positions.position.offset == 7
