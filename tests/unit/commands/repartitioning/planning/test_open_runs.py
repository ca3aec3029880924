"""Which runs keep a move from being made."""

from answerbus.envelope import encode
from answerbus.private.ledger import Skipped
from answerbus.topics import RUNS
from answerbus.wire import bytes_digest
from services.commands.repartitioning.planning.contents import open_requests
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
    assert open_requests(found) == ["r-1", "r-2"]

    found += [stored(3, b"r-1", None), stored(4, b"r-1/1", None)]
    assert open_requests(found) == ["r-2"]


def test_a_record_that_was_passed_by_keeps_nothing_open() -> None:
    found = [stored(0, b"r-1", b"rubbish"), stored(0, b"r-2", b"rubbish", partition=1)]

    assert open_requests([*found, passes_by(0, b"another")]) == ["r-1", "r-2"]
    assert open_requests([*found, passes_by(0, b"rubbish")]) == ["r-2"]
