"""Records of private topics: a lane restores each, or stays shut with words for it."""

from collections.abc import Sequence
from pathlib import Path

from answerbus.topics import LEDGER, RETRIES, RUNS, Topic
from services.worker.lane.opening import RecoveredState, UnreadableState
from services.worker.ports.kafka import StoredRecord
from tests.fuzz.target import Target

EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples"
TOPICS: dict[bytes, Topic] = {b"r": RETRIES, b"u": RUNS}  # all others: the ledger
KINDS = {
    b"l": ("account", "closed", "closed_ids", "lane", "skipped"),
    b"r": ("retry_request",),
    b"u": ("run", "run_call", "run_cancel", "run_child", "run_step"),
}


def check(data: bytes) -> None:
    """The first byte chooses the topic, and whether the value is null."""
    choice, value = data[:1], data[1:]
    topic = TOPICS.get(choice, LEDGER)
    record = StoredRecord(topic, b"key", None if choice == b"0" else value)
    recovered = RecoveredState()
    try:
        recovered.take(record)
        recovered.take(record)  # a record may be read twice
        recovered.check()
        assert len([ticket.deadline for ticket in recovered.requests()]) <= 1
    except UnreadableState as error:
        reason = str(error)
    else:
        return
    assert reason


def seeds() -> Sequence[bytes]:
    found = [
        choice + path.read_bytes()
        for choice, kinds in KINDS.items()
        for kind in kinds
        for path in sorted((EXAMPLES / kind).glob("*.json"))
    ]
    return [*found, b"0"]


TARGET = Target("stored", check, seeds)
