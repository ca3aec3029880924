"""Records of the requests topic, values and headers: each is queued, forwarded or a dead letter."""

import json
from collections.abc import Sequence

from aiokafka import ConsumerRecord

from answerbus.dead_letter import DeadLetter
from answerbus.envelope import Headers, decode
from answerbus.limits import RECORD_BYTES_MAX
from answerbus.topics import DEAD_LETTERS, LEDGER, REQUESTS
from services.worker.adapters.kafka.arrivals import arrival
from services.worker.core.request.known_schemas import KnownSchemas
from services.worker.lane.state.record_admission import admit_record
from tests.fuzz.target import Target
from tests.unit.worker import builders

OFFSET = 7
HEADER, NAME = b"\x1e", b"\x1f"  # between value and headers, between a name and its content
HOUR_MS = 3_600_000
KNOWN = KnownSchemas()  # of the records before, which others are around here


def split(data: bytes) -> tuple[bytes | None, Headers]:
    """Value and headers; a header without content is null, and so is a value of one zero byte."""
    value, *headers = data.split(HEADER)
    found = [(name.decode(errors="replace"), rest) for name, _, rest in map(_parted, headers)]
    return (None if value == b"\0" else value), [(n, r or None) for n, r in found]


def _parted(header: bytes) -> tuple[bytes, bytes, bytes]:
    return header.partition(NAME)


def check(data: bytes) -> None:
    value, headers = split(data)
    millis = int(builders.NOW.timestamp() * 1000) - HOUR_MS
    record = ConsumerRecord(
        topic=builders.TOPIC, partition=0, offset=OFFSET, timestamp=millis, timestamp_type=1,
        key=None, value=value, checksum=None, serialized_key_size=-1,
        serialized_value_size=len(value or b""), headers=tuple(headers),
    )  # fmt: skip
    lane_state = builders.lane_state()
    arrived = arrival(record, KNOWN)
    assert arrived == arrival(record, KnownSchemas())
    writing = admit_record(lane_state, arrived, builders.NOW)
    if writing is None:
        assert len(lane_state.queue.requests) == 1
        return
    assert not lane_state.queue.requests
    assert writing.offset == OFFSET + 1
    written = [out.written() for out in writing.records]
    assert [out.topic for out in written[1:]] == [LEDGER]
    reported = written[0]
    assert len(reported.value or b"") <= RECORD_BYTES_MAX
    match reported.topic.name:
        case REQUESTS.name:
            assert reported.value == value
            assert reported.partition != 0
        case DEAD_LETTERS.name:
            letter = decode(reported.value)
            assert isinstance(letter, DeadLetter)
            assert letter.origin.offset == OFFSET
        case other:
            raise AssertionError(other)


def seeds() -> Sequence[bytes]:
    whole = builders.body(
        workflow_id=builders.workflow_of(0),
        budget={"attempts": 3, "tokens": 20_000},
        policy={"on_invalid": "retry", "ordering": "none"},
        labels={"tenant": "acme"},
        answer_schema={
            "kind": "inline",
            "name": "thing",
            "wrapped": True,
            "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
    )
    claims = [("ce_specversion", b"1.0"), ("ce_type", b"answerbus.request.v1")]
    tracing = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
    forwarded = [("answerbus_forwarded", b"3/17/1795255200000")]
    bodies = [whole, builders.body(workflow_id=builders.workflow_of(1)), builders.body(ttl_s=1)]
    texts = [json.dumps(body).encode() for body in bodies]
    return [
        *texts,
        *(joined(texts[0], headers) for headers in (claims, claims + tracing, forwarded)),
        joined(texts[1], forwarded),
        b"\0",
        b"",
    ]


def joined(value: bytes, headers: Headers) -> bytes:
    """The input that splits into this record."""
    return HEADER.join([value, *(n.encode() + NAME + (c or b"") for n, c in headers)])


TARGET = Target("records", check, seeds)
