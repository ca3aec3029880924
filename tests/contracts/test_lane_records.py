"""What lanes say of the number of partitions: when they agree, and which of them is wrong."""

import hashlib

import pytest

from answerbus.partition import Layout
from answerbus.private.lane_records import KEPT, LaneRecords, agreed
from answerbus.private.ledger import LaneRecord, Skipped
from tests.unit.worker.builders import NOW


def lane(
    partitions: int, earlier: tuple[int, ...] = (), moving_to: int | None = None
) -> LaneRecord:
    return LaneRecord(
        partitions=partitions,
        openings_without_progress=0,
        worker="w",
        at=NOW,
        earlier=earlier,
        moving_to=moving_to,
    )


def skipped(offset: int, value: bytes) -> Skipped:
    digest = "sha256:" + hashlib.sha256(value).hexdigest()
    return Skipped(offset=offset, digest=digest, problem="p", by="ops", reason="why", at=NOW)


def test_lanes_that_agree_say_the_layout() -> None:
    found = agreed({0: lane(4, (3,)), 2: lane(4), 3: lane(4, (3,))}, 7)

    assert (found.layout, found.wrong) == (Layout(4, (3,)), {})
    assert agreed({}, 7).layout is None
    assert agreed({0: lane(4, moving_to=7)}, 4).layout == Layout(4, (), 7)


@pytest.mark.parametrize("wrong", [lane(3), lane(7), lane(40), lane(4, moving_to=7)])
@pytest.mark.parametrize("number", range(3))
def test_one_that_differs_is_wrong_wherever_it_is(wrong: LaneRecord, number: int) -> None:
    """Also the first, whom all others would follow else."""
    found = agreed({n: lane(4) for n in range(4)} | {number: wrong}, 7)

    assert found.layout == Layout(4)
    assert list(found.wrong) == [number]
    assert f"lane {number}: it says {wrong.partitions} partitions" in str(found)
    assert "`answerbus lanes skip`" in str(found)


def test_an_impossible_record_has_no_vote() -> None:
    assert agreed({0: lane(9)}, 4).layout is None
    assert agreed({0: lane(9), 1: lane(4)}, 4).layout == Layout(4)
    assert agreed({3: lane(2), 1: lane(4)}, 4).layout == Layout(4)


def test_without_a_majority_no_layout_is_right() -> None:
    found = agreed({0: lane(4), 1: lane(3)}, 4)

    assert (found.layout, found.is_tied, set(found.wrong)) == (None, True, {0, 1})


def test_what_is_passed_by_counts_no_more() -> None:
    records = LaneRecords()
    records.take(3, b"right", lane(4))
    records.take(5, b"wrong", lane(7))
    records.take(6, b"worse", lane(8))
    assert records.skip(skipped(5, b"another that stood there")) is None
    assert records.skip(skipped(5, b"wrong")) is not None
    assert records.last == lane(8)
    assert records.skip(skipped(6, b"worse")) is not None
    assert records.statement is not None
    assert records.statement.offset == 3
    assert records.skip(skipped(6, b"worse")) is None
    records.end()
    assert records.last is None
    for offset in range(3 * KEPT):
        records.take(offset, b"again", lane(4))
    assert records.last == lane(4)
