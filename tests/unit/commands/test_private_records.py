"""What `answerbus lanes show` says of the private records of runs."""

import pytest

from answerbus.envelope import encode
from answerbus.private.ledger import Skipped
from answerbus.topics import RUNS
from answerbus.wire import bytes_digest
from services.commands.private_records import LaneContents, meaning
from services.operators.records.stored import Stored
from tests.unit.worker.builders import NOW


def stored(offset: int, key: bytes, value: bytes) -> Stored:
    return Stored(RUNS, 0, offset, 0, key, value, ())


def test_a_damaged_record_of_a_run_is_shown_until_it_is_passed_by() -> None:
    found = LaneContents(0)
    found.take(stored(7, b"r-1/1", b"rubbish"))
    assert [(one.stored.offset, one.skipped) for one in found.unreadable] == [(7, None)]

    skip = Skipped(
        offset=7, digest=bytes_digest(b"rubbish"), problem="?", by="ops", reason="x", at=NOW
    )
    record = encode(skip)
    found.take(stored(8, record.key, record.value))
    assert [one.skipped for one in found.unreadable] == [skip]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"r-1", "the run of the request 'r-1'"),
        (b"r-1/2", "step '2' of the run 'r-1'"),
        (b"r-1/2/0", "the tool call 'r-1/2/0'"),
        (b"r-1/cancel/w-1", "the cancellation 'r-1/cancel/w-1'"),
        (b"/cancel/w-1", "the cancellation '/cancel/w-1'"),
    ],
)
def test_what_is_lost_with_a_record_of_a_run_is_said(key: bytes, text: str) -> None:
    assert text in meaning(stored(0, key, b"rubbish"))
