"""Random bytes, produced raw into private topics: no crash, and `lanes skip` opens each lane."""

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from answerbus.partition import partition_of
from answerbus.topics import LEDGER, RETRIES, RUN_TOPICS, RUNS, Topic
from tests.fuzz.batches import Codec, Draft, Sent, batch_bytes, batch_of
from tests.fuzz.produce import RawProducer
from tests.integration.bus import ANSWERED, Bus, create_topics, request, until
from tests.integration.command_line import answerbus
from tests.unit.operators.stored_examples import EXAMPLES

pytestmark = [pytest.mark.kafka, pytest.mark.long]

WORKFLOW = "order-1"
BATCHES = 25  # offered to each topic; brokers refuse some
DAMAGED_SHARE = 0.3  # most are refused: without a key, no record can be compacted
KEYS = (b"", b"account:", b"closed:", b"closed_ids:", b"lane")
OPENED_S_MAX = 90.0
ROUNDS_MAX = 10  # of showing and skipping: what is behind an unreadable batch is seen after it
KINDS = {
    LEDGER: ("account", "closed", "closed_ids", "skipped"),
    RETRIES: ("retry_request",),
    RUNS: ("run", "run_call", "run_cancel", "run_child", "run_step"),
}


def mutated(value: bytes, chance: random.Random) -> bytes | None:
    """Cut, with other bytes, twice, random, or null."""
    at = chance.randrange(len(value))
    return chance.choice(
        [
            value[:at],
            value[:at] + chance.randbytes(chance.randrange(1, 9)) + value[at + 1 :],
            value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :],
            value + value,
            chance.randbytes(chance.randrange(200)),
            None,
        ]
    )


def batch(examples: Sequence[bytes], chance: random.Random) -> bytes:
    """One to three mutated examples; some of the batches are damaged themselves."""
    values = [mutated(chance.choice(examples), chance) for _ in range(chance.randrange(1, 4))]
    if chance.random() < DAMAGED_SHARE:
        return batch_of(chance.randrange(2**32), values).data
    keys = [chance.choice(KEYS) + chance.choice([b"r-7", b"order-9"]) for _ in values]
    sent = [Sent(value, key) for value, key in zip(values, keys, strict=True)]
    return batch_bytes(Draft(sent, chance.choice(list(Codec))))


async def spoil(bus: Bus, topic: Topic, partition: int, seed: int) -> int:
    """Offer batches of mutated examples; gives how many were taken."""
    chance = random.Random(f"{topic.name} {seed}")
    examples = [
        path.read_bytes() for kind in KINDS[topic] for path in sorted((EXAMPLES / kind).iterdir())
    ]
    async with RawProducer(bus.bootstrap) as producer:
        offered = [
            await producer.produce(bus.topic(topic), partition, batch(examples, chance))
            for _ in range(BATCHES)
        ]
    return sum(taken.error == 0 for taken in offered)


async def unreadable(bus: Bus, partition: int) -> Sequence[dict[str, Any]]:
    """What keeps the lane shut, as `lanes show` names it."""
    ended = await answerbus(
        bus.bootstrap, bus.prefix, "lanes", "show", "--json", "--partition", str(partition)
    )
    assert "Traceback" not in ended.err, ended.err
    assert ended.code in {0, 1}, ended
    found = [one for lane in json.loads(ended.out) for one in lane["unreadable"]]
    return [one for one in found if not one["skipped"]]


async def skip(bus: Bus, one: dict[str, Any]) -> None:
    """As docs/runbooks/lane-stuck.md says."""
    topic = one["topic"].removeprefix(f"{bus.prefix}.").removesuffix(".v1")
    where = ("--partition", str(one["partition"]), "--offset", str(one["offset"]))
    newer = ("--newer-version",) if one["newer_version"] else ()
    ended = await answerbus(
        bus.bootstrap,
        bus.prefix,
        "lanes",
        "skip",
        "--topic",
        topic,
        *where,
        "--reason",
        "spoilt",
        *newer,
    )
    assert ended.code == 0, (one, ended)


@pytest.mark.parametrize("seed", range(5))
async def test_each_is_named_and_passed_by(bus: Bus, seed: int) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    partition = partition_of(WORKFLOW, bus.partitions)
    for topic in KINDS:
        assert await spoil(bus, topic, partition, seed) > BATCHES / 4
    worker = bus.start_worker(bus.config([{"reply": ANSWERED}]))
    await bus.publish([request("r-1", WORKFLOW)])
    await until(lambda: str(partition) in worker.health["stuck"], "it says what it is stuck on")
    why = worker.health["stuck"][str(partition)]
    named = await unreadable(bus, partition)
    assert any(f"offset {one['offset']}" in why or f"@{one['offset']}" in why for one in named), why

    for _ in range(ROUNDS_MAX):
        for one in named:
            await skip(bus, one)
        if not (named := await unreadable(bus, partition)):
            break
    assert not named
    assert await kinds_of_its_outcomes(bus) == ["result"]
    assert worker.health["stuck"] == {}
    assert worker.process.poll() is None
    assert "Traceback" not in worker.log_file.read_text()


async def kinds_of_its_outcomes(bus: Bus) -> list[str]:
    """Of the request, once there are any; a retry that was written raw may have its own."""
    async with asyncio.timeout(OPENED_S_MAX):
        while not (found := [e for e in await bus.terminals(1) if e["request_id"] == "r-1"]):
            await asyncio.sleep(0.2)
    return [event["kind"] for event in found]
