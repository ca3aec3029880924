"""Records that are not requests, on all partitions, among requests: each ends in its one event."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from answerbus.topics import REQUESTS
from tests.corpora import own_cases
from tests.integration.bus import ANSWERED, Bus, Worker, request
from tests.integration.evidence import Evidence, JsonObject, assert_sound, collect, raw_of

pytestmark = pytest.mark.kafka

RULES: list[JsonObject] = [{"reply": ANSWERED}]
RECORDS = 2_000
GOOD = 200
SEED = 20261121
ID = "00000000-malformed"  # stands in the corpus's example for an id of each record's own
PUBLISH_LIMIT_S = 30.0
LOG_LINES_MAX = 50  # of a whole run: far fewer than records

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class MalformedRecord:
    """A record to publish; `expect` is the code of its first problem, or None for any, or no."""

    value: bytes | None
    headers: Headers
    key: bytes | None = None
    code: str | None = None
    may_be_valid: bool = False
    kind: str = ""


@dataclass(frozen=True)
class Placed:
    """Where a record came to stand."""

    malformed: MalformedRecord
    partition: int
    offset: int


def publish_mixed(
    bus: Bus, odds: Sequence[MalformedRecord], good: Sequence[JsonObject]
) -> list[Placed]:
    """All of them in a mixed order, the odd ones on any partition."""
    chance = random.Random(SEED)
    mixed: list[MalformedRecord | JsonObject] = [*odds, *good]
    chance.shuffle(mixed)
    placed: list[Placed] = []
    # With Java's partitioner, which takes those with a key to their lanes.
    producer = Producer({"bootstrap.servers": bus.bootstrap, "partitioner": "murmur2_random"})

    def put(value: bytes | None, reply: Callable[[Message], None], **more: Any) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None
            reply(message)

        producer.produce(bus.topic(REQUESTS), value, on_delivery=delivered, **more)
        producer.poll(0)

    for record in mixed:
        if isinstance(record, MalformedRecord):
            place = partial(_keep, placed, record)
            partition = chance.randrange(bus.partitions)
            key, headers = record.key, record.headers
            put(record.value, place, key=key, headers=headers, partition=partition)
        else:
            put(json.dumps(record).encode(), lambda _: None, key=record["workflow_id"])
    assert producer.flush(PUBLISH_LIMIT_S) == 0
    assert len(placed) == len(odds)
    return placed


def _keep(placed: list[Placed], malformed: MalformedRecord, message: Message) -> None:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    placed.append(Placed(malformed, partition, offset))


@asynccontextmanager
async def one_idle_worker(bus: Bus) -> AsyncIterator[Worker]:
    """A worker that lives through the block and has nothing to complain of."""
    worker = bus.start_worker(bus.config(RULES))
    yield worker
    assert worker.process.poll() is None
    assert worker.terminate() == 0
    lines = worker.log_file.read_text().splitlines()
    assert all(line.startswith("{") for line in lines)  # no traceback past the log
    assert {line["level"] for line in worker.log()} <= {"info", "warning"}
    assert len(lines) < LOG_LINES_MAX


def dead_letters_by_place(evidence: Evidence) -> dict[tuple[int, int], JsonObject]:
    """The letters about records that are not requests; one for each place at most."""
    found = [body for body in evidence.terminals if body.get("request", True) is None]
    places = {(body["origin"]["partition"], body["origin"]["offset"]): body for body in found}
    assert len(places) == len(found)
    return places


def assert_dead_letter_about(dead_letter: JsonObject, topic: str, placed: Placed) -> None:
    """That it names the place, and holds the very bytes as far as letters do."""
    malformed = placed.malformed
    assert dead_letter["cause"]["kind"] == "undecodable", malformed.kind
    assert dead_letter["cause"]["problems"], malformed.kind
    assert dead_letter["origin"]["topic"] == topic
    place = f"{topic}-{placed.partition}-{placed.offset}"
    assert dead_letter["dead_letter_id"] == f"{place}.dead-letter"
    assert (dead_letter["request"], dead_letter["account"], dead_letter["prior"]) == (
        None,
        None,
        [],
    )
    value, headers = raw_of(dead_letter)
    assert value == malformed.value
    assert headers == malformed.headers[: len(headers)]
    assert dead_letter["raw"]["bytes"] == len(malformed.value or b"")


def good_requests(count: int) -> list[JsonObject]:
    return [request(f"good-{n}", f"order-{n % 50}", budget={"attempts": 9}) for n in range(count)]


def answered(evidence: Evidence) -> Counter[str]:
    """How many results each request has."""
    return Counter(b["request_id"] for b in evidence.terminals if b["kind"] == "result")


def body(**changes: Any) -> bytes:
    return json.dumps({**request("odd", "order-1"), **changes}).encode()


def claims(ce_type: bytes | None, version: bytes = b"1.0") -> Headers:
    return [("ce_specversion", version), ("ce_type", ce_type)]


OURS = b"answerbus.request.v1"
WRITTEN = [
    MalformedRecord(None, [], code="null_value"),
    MalformedRecord(b"", [], code="not_json"),
    MalformedRecord(b"\xff\xfe{}", [], key=b"\xff", code="not_json"),
    MalformedRecord(b'{"kind":"request"', [], code="not_json"),
    MalformedRecord(body()[:-1] + b',"workflow_id":"order-2"}', [], code="not_json"),
    MalformedRecord(b"[" * 10_000, [], code="not_json"),
    MalformedRecord(b"[" * 100_000, [], code="too_many_values"),
    MalformedRecord(body()[:-1] + b',"x":' + b"[" * 300 + b"]" * 300 + b"}", [], code="not_json"),
    MalformedRecord(body()[:-1] + b',"x":NaN}', [], code="not_json"),
    MalformedRecord(b"[]", [], code="not_an_object"),
    MalformedRecord(b"null", [("", None)], code="not_an_object"),
    MalformedRecord(b"{}", [], code="missing"),
    MalformedRecord(body(kind="result"), [], code="literal_error"),
    MalformedRecord(body().replace(b'"kind": "request", ', b""), [], code="missing"),
    MalformedRecord(body(request_id="no spaces"), [], code="string_pattern_mismatch"),
    MalformedRecord(body(request_id="x" * 129), [], code="string_too_long"),
    MalformedRecord(body(workflow_id=7), [], code="string_type"),
    MalformedRecord(body(ttl_s=86_401), [], code="less_than_equal"),
    MalformedRecord(body(ttl_s=True), [], code="int_type"),
    MalformedRecord(body(policy={"on_invalid": "hope"}), [], code="literal_error"),
    MalformedRecord(body(answer_schema={"kind": "any"}), [], code="union_tag_invalid"),
    MalformedRecord(body(budget={"attempts": -1}), [], code="greater_than_equal"),
    MalformedRecord(body(), claims(b"answerbus.result.v1"), code="ce_type"),
    MalformedRecord(body(), claims(b"answerbus.request.v2"), code="ce_type"),
    MalformedRecord(body(), claims(None), code="ce_type"),
    MalformedRecord(body(), claims(b"\xff\xfe"), code="ce_type"),
    MalformedRecord(body(), claims(OURS, b"0.3"), code="ce_specversion"),
]


async def test_each_malformed_record_ends_as_its_dead_letter(bus: Bus) -> None:
    async with one_idle_worker(bus):
        placed = publish_mixed(bus, WRITTEN, good_requests(20))
        await bus.terminals(len(WRITTEN) + 20)
        await bus.publish([request("after", "order-after")])
        await bus.terminals(len(WRITTEN) + 21)
    evidence = await collect(bus)
    dead_letters = dead_letters_by_place(evidence)

    assert_sound(evidence)
    assert answered(evidence) == Counter(["after", *(b["request_id"] for b in good_requests(20))])
    assert len(dead_letters) == len(placed)
    for record in placed:
        dead_letter = dead_letters[record.partition, record.offset]
        assert_dead_letter_about(dead_letter, bus.topic(REQUESTS), record)
        assert dead_letter["cause"]["problems"][0]["code"] == record.malformed.code, (
            record.malformed
        )


def corpus() -> list[MalformedRecord]:
    """The corpus's records, made from a request of ours; each whole copy gets its own id."""
    records = own_cases().records()
    example = records.Example(
        value=request(ID, f"order-{ID}"),
        headers=[*claims(OURS), ("ce_id", ID.encode()), ("content-type", b"application/json")],
    )
    return [
        MalformedRecord(
            None if record.value is None else record.value.replace(ID.encode(), b"odd-%d" % number),
            record.headers,
            record.key,
            # Headers are optional here, so that a record without any is a request.
            may_be_valid=record.expect == "either" or record.kind == "no_headers",
            kind=record.kind,
        )
        for number, record in enumerate(records.malformed(RECORDS, SEED, example))
    ]


async def test_malformed_records_of_the_corpus(bus: Bus) -> None:
    odds, good = corpus(), good_requests(GOOD)
    async with one_idle_worker(bus):
        placed = publish_mixed(bus, odds, good)
        await bus.terminals(RECORDS + GOOD, limit_s=120)
        await bus.publish([request("after", "order-after")])
        await bus.terminals(RECORDS + GOOD + 1)
    evidence = await collect(bus)
    dead_letters, results = dead_letters_by_place(evidence), answered(evidence)

    assert_sound(evidence)
    for record in placed:
        dead_letter = dead_letters.pop((record.partition, record.offset), None)
        if dead_letter is not None:
            assert_dead_letter_about(dead_letter, bus.topic(REQUESTS), record)
        else:
            assert record.malformed.may_be_valid, record.malformed.kind
            results[json.loads(record.malformed.value or b"")["request_id"]] -= 1
    assert dead_letters == {}
    assert +results == Counter(["after", *(b["request_id"] for b in good)])
    assert min(results.values()) == 0
