"""Batches that no client library can read, produced raw among requests: each ends as one letter."""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from answerbus.topics import REQUESTS
from tests.fuzz.batches import Codec, Draft, RawBatch, Sent, batch_bytes, batch_of
from tests.fuzz.damage import HEAVY
from tests.fuzz.produce import RawProducer
from tests.integration.bus import ANSWERED, Bus, Worker, request
from tests.integration.evidence import JsonObject

pytestmark = pytest.mark.kafka

RULES: list[JsonObject] = [{"reply": ANSWERED}]
SEED = 20261122
DAMAGED = 250
GOOD = 100
ANSWERED_S_MAX = 10.0
LOG_LINES_MAX = 40  # of a whole run: far fewer than batches
RSS_MIB_MAX = 200  # more than before; one of the bombs unpacks to 64 MiB, of which 16 are tried

_STRETCH = re.compile(r"stands at offsets (\d+) to (\d+)")


@dataclass(frozen=True)
class Placed:
    """A batch that the broker has taken."""

    kind: str
    partition: int
    offset: int
    records: int


def rss_mib(worker: Worker) -> float:
    with open(f"/proc/{worker.process.pid}/status") as status:
        (line,) = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


async def produced(bus: Bus, batches: Iterable[RawBatch], good: int) -> list[Placed]:
    """Each batch into some partition, good requests between them; gives those that were taken."""
    chance, placed = random.Random(SEED), []
    batches = list(batches)
    publishing = [request(f"good-{n}", f"order-{n}") for n in range(good)]
    async with RawProducer(bus.bootstrap) as producer:
        for number, raw in enumerate(batches):
            partition = chance.randrange(bus.partitions)
            taken = await producer.produce(bus.topic(REQUESTS), partition, raw.data)
            if taken.error == 0:
                placed.append(Placed(raw.kind, partition, taken.offset, raw.records))
            upto = (number + 1) * good // len(batches)
            await bus.publish(publishing[number * good // len(batches) : upto])
    return placed


def offsets_of(dead_letter: JsonObject) -> list[tuple[int, int]]:
    """The places that a letter stands for."""
    first = dead_letter["origin"]["offset"]
    reported = _STRETCH.search(dead_letter["cause"]["problems"][0]["expected"])
    last = int(reported[2]) if reported else first
    assert not reported or int(reported[1]) == first
    return [(dead_letter["origin"]["partition"], offset) for offset in range(first, last + 1)]


async def settled(bus: Bus, good: int, offsets: int) -> tuple[list[JsonObject], Counter[str]]:
    """The letters and the results, once there are as many as there must be."""
    dead_letters: list[JsonObject] = []
    async with asyncio.timeout(60):
        while True:
            events = await bus.terminals(good, limit_s=ANSWERED_S_MAX)
            dead_letters = [event for event in events if event["kind"] == "dead_letter"]
            results = Counter(e["request_id"] for e in events if e["kind"] == "result")
            if (
                len(results) >= good
                and sum(len(offsets_of(dead_letter)) for dead_letter in dead_letters) >= offsets
            ):
                return dead_letters, results


def assert_each_offset_once(dead_letters: list[JsonObject], placed: list[Placed]) -> None:
    reported = Counter(place for dead_letter in dead_letters for place in offsets_of(dead_letter))
    wanted = {
        (one.partition, one.offset + n): one.kind for one in placed for n in range(one.records)
    }
    assert set(reported) == set(wanted), [kind for at, kind in wanted.items() if at not in reported]
    assert set(reported.values()) == {1}
    assert {dead_letter["cause"]["kind"] for dead_letter in dead_letters} == {"undecodable"}
    for dead_letter in dead_letters:
        origin = dead_letter["origin"]
        place = f"{origin['topic']}-{origin['partition']}-{origin['offset']}"
        assert dead_letter["dead_letter_id"] == f"{place}.dead-letter"
        assert dead_letter["raw"]["bytes"] >= 0


def assert_no_restart(worker: Worker) -> None:
    """It lives, is ready, and has not filled the log."""
    health = worker.health
    assert worker.process.poll() is None
    assert health["ready"] is True, health
    assert len(worker.log_file.read_text().splitlines()) < LOG_LINES_MAX
    # aiokafka complains of a broker that has just begun.
    ours = [line for line in worker.log() if not line["logger"].startswith("aiokafka")]
    assert {line["level"] for line in ours} <= {"info", "warning"}


async def test_whatever_a_broker_takes_is_read_or_passed_by(bus: Bus) -> None:
    batches = [batch_of(SEED + n, [b"%d" % n] * (1 + n % 3)) for n in range(DAMAGED)]
    worker = bus.start_worker(bus.config(RULES))
    await bus.publish([request("first", "order-first")])
    await bus.terminals(1)
    # The values are no requests, so that a record that can be read ends as a letter, too.
    placed = await produced(bus, batches, GOOD)
    began = time.monotonic()
    dead_letters, results = await settled(bus, GOOD + 1, sum(one.records for one in placed))
    took_s = time.monotonic() - began

    assert took_s < ANSWERED_S_MAX
    assert results == Counter(["first", *(f"good-{n}" for n in range(GOOD))])
    assert len(placed) > DAMAGED / 4
    assert_each_offset_once(dead_letters, placed)
    unreadable = [
        dead_letter
        for dead_letter in dead_letters
        if "unreadable" in dead_letter["cause"]["problems"][0]["code"]
    ]
    assert unreadable
    assert worker.health["unreadable"] == len(unreadable)
    metric = f"answerbus_requests_unreadable_total {len(unreadable)}"
    assert metric.encode() in worker.get("/metrics")
    assert_no_restart(worker)


NAME = [(b"\xff\xfe", b"1")]
JUNK = b"junk"
FAULTS = {
    "header name": Draft([Sent(b"{}", headers=NAME)]),
    "header name in a batch": Draft([Sent(b"{}", headers=NAME)] * 3, Codec.GZIP),
    "gzip and more": Draft([Sent(b"{}")], Codec.GZIP, behind=JUNK),
    "lz4 and more": Draft([Sent(b"{}")] * 2, Codec.LZ4, behind=JUNK),
    "a record's length": Draft([Sent(b"{}", length=3), Sent(b"{}")], Codec.ZSTD),
    "a record's offset": Draft([Sent(b"{}", offset_delta=2**31 - 1)]),
    "a timestamp": Draft([Sent(b"{}", timestamp_delta=2**62)], first_timestamp=2**62),
    "headers": Draft([Sent(b"{}", headers=[(b"", None)] * 60_000)], Codec.ZSTD),
}


async def test_known_faults_harm_no_lane(bus: Bus) -> None:
    """Each of them, alone, made a worker stand still for ever, or take what memory there is."""
    worker = bus.start_worker(bus.config(RULES))
    await bus.publish([request("first", "order-first")])
    await bus.terminals(1)
    before_mib = rss_mib(worker)
    batches = [
        RawBatch(kind, batch_bytes(draft), tuple(record.value for record in draft.records), draft)
        for kind, draft in FAULTS.items()
    ]
    chance = random.Random(SEED)
    bombs = [HEAVY["bomb"](Draft([Sent(b"")]), chance) for _ in range(6)]
    batches += [RawBatch("bomb", batch_bytes(bomb), (b"",), bomb) for bomb in bombs]
    placed = await produced(bus, batches, GOOD)
    dead_letters, results = await settled(bus, GOOD + 1, sum(one.records for one in placed))

    assert {one.kind for one in placed} == {*FAULTS, "bomb"}
    assert len(results) == GOOD + 1
    assert_each_offset_once(dead_letters, placed)
    assert rss_mib(worker) - before_mib < RSS_MIB_MAX
    assert worker.health["loop"]["worst_s"] < 1
    assert_no_restart(worker)


async def test_a_dead_letter_of_a_batch_is_written_once_over_restarts(bus: Bus) -> None:
    draft = Draft([Sent(b"{}")] * 5, Codec.GZIP, behind=JUNK)
    raw = RawBatch("gzip", batch_bytes(draft), (b"{}",) * 5, draft=draft)
    config = bus.config(RULES)
    first = bus.start_worker(config)
    placed = await produced(bus, [raw], 1)
    await settled(bus, 1, 5)
    first.kill()
    bus.start_worker(config)
    await bus.publish([request("after", "order-after")])
    dead_letters, _ = await settled(bus, 2, 5)

    assert_each_offset_once(dead_letters, placed)


async def test_a_waiting_caller_learns_that_its_headers_are_broken(bus: Bus) -> None:
    """The ids are in the body, which can be read."""
    body = b'{"request_id":"r-1","workflow_id":"order-1"}'
    draft = Draft([Sent(body, headers=NAME)])
    sound = replace(draft, records=[Sent(body)])
    worker = bus.start_worker(bus.config(RULES))
    batches = [RawBatch("x", batch_bytes(d), (body,), d) for d in (draft, sound)]
    await produced(bus, batches, 1)
    dead_letters, _ = await settled(bus, 1, 2)

    assert [
        (dead_letter["request_id"], dead_letter["workflow_id"]) for dead_letter in dead_letters
    ] == [("r-1", "order-1")] * 2
    codes = {dead_letter["cause"]["problems"][0]["code"] for dead_letter in dead_letters}
    assert codes == {"unreadable_headers", "missing"}
    assert_no_restart(worker)
