"""Records of private topics: a lane restores each, or stays shut with words for it."""

from collections.abc import Sequence
from pathlib import Path

from answerbus.topics import LEDGER, RETRIES
from services.worker.lane.opening import RecoveredState, UnreadableState
from services.worker.ports import StoredRecord
from tests.fuzz.target import Target

EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples"
KINDS = ("account", "closed", "lane", "retry_request")


def check(data: bytes) -> None:
    """The first byte chooses the topic, and whether the value is null."""
    choice, value = data[:1], data[1:]
    topic = RETRIES if choice == b"r" else LEDGER
    record = StoredRecord(topic, b"key", None if choice == b"0" else value)
    recovered = RecoveredState()
    try:
        recovered.take(record)
        recovered.take(record)  # a record may be read twice
        assert len(recovered.tickets()) <= 1
    except UnreadableState as error:
        reason = str(error)
    else:
        return
    assert reason


def seeds() -> Sequence[bytes]:
    found = [
        (b"r" if kind == "retry_request" else b"l") + path.read_bytes()
        for kind in KINDS
        for path in sorted((EXAMPLES / kind).glob("*.json"))
    ]
    return [*found, b"0"]


TARGET = Target("stored", check, seeds)
