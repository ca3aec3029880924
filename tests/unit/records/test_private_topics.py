"""Private records of runs with times that no deadline can be counted from keep a lane shut."""

import json
from pathlib import Path
from typing import Any

import pytest

from answerbus.topics import RUNS
from services.commands.private_records import LaneContents
from services.operators.records.stored import Stored
from services.worker.lane.opening import RecoveredState, UnreadableState
from services.worker.ports.kafka import StoredRecord

EXAMPLES = Path(__file__).parents[3] / "contracts" / "examples"
TOO_LATE = "9999-12-31T23:59:59.999Z"


def example(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((EXAMPLES / f"{name}.json").read_bytes())
    return record


def begun(name: str, timestamp: str) -> bytes:
    record = example(name)
    return json.dumps(record | {"origin": record["origin"] | {"timestamp": timestamp}}).encode()


def called(timestamp: str) -> bytes:
    return json.dumps(example("run_call/called") | {"called_at": timestamp}).encode()


LATE = {
    "run": begun("run/delegates", TOO_LATE),
    "run_child": begun("run_child/delegated", TOO_LATE),
    "run_call": called(TOO_LATE),
}


@pytest.mark.parametrize("kind", LATE)
def test_such_a_record_is_named_to_the_worker_and_to_operators(kind: str) -> None:
    """It would raise behind the reading, at each opening again, and `lanes show` had no word."""
    value = LATE[kind]
    recovered, shown = RecoveredState(), LaneContents(0)
    recovered.take(StoredRecord(RUNS, b"r-1", value, offset=17))
    shown.take(Stored(RUNS, 0, 17, 0, b"r-1", value, ()))

    with pytest.raises(UnreadableState, match=r"^runs, offset 17, cannot be read: a deadline "):
        recovered.check()
    assert [one.stored.offset for one in shown.unreadable] == [17]


@pytest.mark.parametrize("name", ["run/delegates", "run_child/delegated"])
def test_a_usual_time_opens_the_run(name: str) -> None:
    recovered = RecoveredState()
    recovered.take(StoredRecord(RUNS, b"r-1", begun(name, "2026-11-23T10:00:00.000Z")))
    recovered.settle()

    (ticket,) = recovered.requests()
    assert ticket.deadline.year == 2026
