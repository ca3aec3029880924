"""Which runs and cancellations keep a move from being made."""

from datetime import timedelta

from answerbus.control import Cancel
from answerbus.envelope import encode
from answerbus.private.ledger import LaneRecord, Skipped
from answerbus.private.runs import RunCancelRecord
from answerbus.topics import CONTROLS, RUNS
from answerbus.wire import bytes_digest
from services.commands.repartitioning.planning.contents import open_requests, unread_cancels
from services.operators.records.stored import Stored
from tests.unit.worker.builders import NOW


def stored(offset: int, key: bytes, value: bytes | None, partition: int = 0) -> Stored:
    return Stored(RUNS, partition, offset, 0, key, value, ())


def passes_by(offset: int, value: bytes, partition: int = 0) -> Stored:
    record = encode(
        Skipped(
            offset=offset, digest=bytes_digest(value), problem="?", by="ops", reason="x", at=NOW
        )
    )
    return Stored(RUNS, partition, 90, 0, record.key, record.value, ())


def test_a_run_is_open_until_each_of_its_records_is_ended() -> None:
    found = [stored(0, b"r-1", b"{}"), stored(1, b"r-1/1", b"{}"), stored(2, b"r-2", b"{}")]
    assert open_requests(found, NOW) == ["r-1", "r-2"]

    found += [stored(3, b"r-1", None), stored(4, b"r-1/1", None)]
    assert open_requests(found, NOW) == ["r-2"]


def test_a_record_that_was_passed_by_keeps_nothing_open() -> None:
    found = [stored(0, b"r-1", b"rubbish"), stored(0, b"r-2", b"rubbish", partition=1)]

    assert open_requests([*found, passes_by(0, b"another")], NOW) == ["r-1", "r-2"]
    assert open_requests([*found, passes_by(0, b"rubbish")], NOW) == ["r-2"]


def test_a_cancellation_is_open_for_a_day_and_says_what_it_is_of() -> None:
    cancel = RunCancelRecord(request_id=None, workflow_id="w-1", by="ops", reason="x", at=NOW)
    record = encode(cancel)
    found = [stored(0, record.key or b"", record.value)]

    assert open_requests(found, NOW) == ["workflow w-1"]
    assert open_requests(found, NOW + timedelta(days=2)) == []


def test_a_cancellation_is_unread_until_its_lane_is_behind_it() -> None:
    def cancels(request_id: str | None, partition: int) -> Stored:
        record = encode(
            Cancel(
                scope="request" if request_id else "workflow",
                request_id=request_id,
                workflow_id="w-1",
                by="ops",
                reason="x",
                at=NOW,
            )
        )
        return Stored(CONTROLS, partition, 3, 0, record.key, record.value, record.headers)

    lane = LaneRecord(partitions=3, openings_without_progress=0, worker="w", at=NOW, controls_at=4)
    controls = [cancels(name, number) for number, name in enumerate(("r-0", "r-1", None, "r-3"))]

    assert unread_cancels(controls, 3, {0: lane}) == ["r-1", "workflow w-1"]
