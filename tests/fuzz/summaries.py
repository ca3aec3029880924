"""Records of any topic: a summary is never an exception, and agrees with the codec."""

from collections.abc import Sequence
from pathlib import Path

from answerbus.envelope import Undecodable, decode
from answerbus.event import request_of, workflow_of
from answerbus.topics import EVERY_TOPIC, TOPIC_OF_KIND
from services.console.state.console_state import ConsoleState
from services.console.views.record_line import what_of
from services.operators.audit.claims import ClaimedSpending
from services.operators.records.stored import RetryEnded, Stored
from services.operators.records.summary import UndecodableRecord, summarize
from tests.fuzz.target import Target

EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples"


def check(data: bytes) -> None:
    """The first byte chooses the topic; after it, no byte at all is a null value."""
    value = data[1:] or None
    stored = Stored(
        EVERY_TOPIC[(data[:1] or b"\0")[0] % len(EVERY_TOPIC)], 0, 7, 0, b"key", value, ()
    )
    state, claims = ConsoleState(), ClaimedSpending()
    for _ in range(2):  # a record may be read twice
        state.take(stored)
        claims.take(stored)
    claims.balances()
    found = summarize(stored)
    what_of(found)
    if isinstance(found.event, RetryEnded | UndecodableRecord):
        return
    event = decode(value)
    if isinstance(event, Undecodable):  # somewhere that a summary skips
        return
    assert TOPIC_OF_KIND[event.kind] is stored.topic
    assert (found.kind, found.workflow_id) == (event.kind, workflow_of(event))
    assert found.request_id == request_of(event)


def seeds() -> Sequence[bytes]:
    return [
        bytes([EVERY_TOPIC.index(TOPIC_OF_KIND[path.parent.name])]) + path.read_bytes()
        for path in sorted(EXAMPLES.rglob("*.json"))
    ]


TARGET = Target("summaries", check, seeds)
