"""The lane records of a move: that it is in progress, and the layout after it; pure."""

from collections.abc import Iterator
from datetime import datetime

from answerbus.partition import Layout
from answerbus.private.ledger import LANE_KEY, LaneRecord
from answerbus.topics import LEDGER
from services.worker.lane.state.records import event_record
from services.worker.ports import OutRecord

WRITER = "topics move"


def begun(layout: Layout, partitions: int, group: str, now: datetime) -> Iterator[OutRecord]:
    """From here on no lane opens until the move is done."""
    for number in range(layout.partitions):
        yield _record(number, layout.partitions, layout.earlier, partitions, group, now)


def done(
    layout: Layout, partitions: int, there: int, group: str, now: datetime
) -> Iterator[OutRecord]:
    """From here on `partitions` are in use, of `there` that the ledger has."""
    before = dict.fromkeys((layout.partitions, *layout.earlier))
    earlier = tuple(count for count in before if count != partitions)
    for number in range(partitions):
        yield _record(number, partitions, earlier, None, group, now)
    for number in range(partitions, there):
        yield OutRecord(LEDGER, number, LANE_KEY.encode(), None, [])


def _record(
    number: int,
    partitions: int,
    earlier: tuple[int, ...],
    moving_to: int | None,
    group: str,
    now: datetime,
) -> OutRecord:
    lane = LaneRecord(
        partitions=partitions,
        openings_without_progress=0,
        worker=WRITER,
        at=now,
        earlier=earlier,
        moving_to=moving_to,
        group=group,
    )
    return event_record(lane, number)
