"""Unreadable records in every topic: readers pass them by, and lanes say where they are."""

import asyncio
import json

import pytest

from answerbus.answers.plan_proposal import PlanProposal
from answerbus.client import Client
from answerbus.client.bus import Bus as ClientBus
from answerbus.envelope import Undecodable
from answerbus.partition import partition_of
from answerbus.topics import (
    DEAD_LETTERS,
    LEDGER,
    REFUSALS,
    REQUESTS,
    RESULTS,
    RETRIES,
    TOPICS,
    Topic,
)
from services.operators.adapters.picker import picking
from services.operators.adapters.reader import reading
from services.operators.records.stored import RecordPosition
from tests.fuzz.batches import Codec, Draft, Sent, batch_bytes
from tests.fuzz.produce import RawProducer
from tests.integration.bus import ANSWERED, Bus, Worker, request, until
from tests.integration.command_line import answerbus

pytestmark = pytest.mark.kafka

WORKFLOW = "order-1"
NAME = Draft([Sent(b"{}", key=b"k", headers=[(b"\xff", b"1")])])
TRAILING = Draft([Sent(b"{}", key=b"k")] * 2, Codec.GZIP, behind=b"junk")
LIMIT_S = 60.0


async def spoil(bus: Bus, topic: Topic, partition: int, draft: Draft) -> int:
    """Write it there; gives its offset."""
    async with RawProducer(bus.bootstrap) as producer:
        taken = await producer.produce(bus.topic(topic), partition, batch_bytes(draft))
    assert taken.error == 0
    return taken.offset


async def spoil_all(bus: Bus, *topics: Topic) -> None:
    """Two batches in each partition."""
    for topic in topics:
        for partition in range(bus.partitions):
            for draft in (NAME, TRAILING):
                await spoil(bus, topic, partition, draft)


@pytest.mark.parametrize("draft", [NAME, TRAILING])
@pytest.mark.parametrize("topic", [LEDGER, RETRIES])
async def test_in_a_private_topic_they_keep_one_lane_shut_and_it_says_where(
    bus: Bus, topic: Topic, draft: Draft
) -> None:
    offset = await spoil(bus, topic, 2, draft)
    worker = bus.start_worker(bus.config([{"reply": ANSWERED}]))
    workflows = {partition_of(f"order-{n}", bus.partitions): f"order-{n}" for n in range(50)}
    await bus.publish([request(f"r-{p}", workflow) for p, workflow in workflows.items()])

    assert len(await bus.terminals(3)) == 3
    await until(lambda: bool(worker.health["stuck"]), "it says that a lane is stuck")
    assert set(worker.health["stuck"]) == {"2"}
    assert f"{bus.topic(topic)}-2@{offset}: expected " in worker.health["stuck"]["2"]
    assert worker.health["ready"] is False
    assert log_of(worker) < 20


def log_of(worker: Worker) -> int:
    return len(worker.log_file.read_text().splitlines())


async def test_who_asks_or_subscribes_gets_what_stands_behind_them(bus: Bus) -> None:
    await spoil_all(bus, REQUESTS, RESULTS, REFUSALS, DEAD_LETTERS)
    bus.start_worker(bus.config([{"reply": ANSWERED}]))
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        asked = asyncio.create_task(
            client.ask("Propose a change.", response_model=PlanProposal, workflow_id=WORKFLOW)
        )
        partition = partition_of(WORKFLOW, bus.partitions)
        for _ in range(5):
            await spoil(bus, RESULTS, partition, NAME)
            await asyncio.sleep(0)
        async with asyncio.timeout(LIMIT_S):
            answer = await asked
        found = await client.outcome_of(str(answer.request_id), WORKFLOW)
        assert found.request_id == answer.request_id
        bad, good = 0, None
        async with (
            asyncio.timeout(LIMIT_S),
            client.subscribe(response_model=PlanProposal, group_id="billing") as outcomes,
        ):
            async for outcome in outcomes:
                if isinstance(outcome, Undecodable):
                    bad += 1
                else:
                    good = outcome.request_id
                if good and bad >= 2 * 2 * bus.partitions + 5:
                    break
        assert good == answer.request_id


async def test_readers_and_commands_pass_them_by(bus: Bus) -> None:
    await spoil_all(bus, REQUESTS)
    worker = bus.start_worker(bus.config([{"reply": ANSWERED}]))
    await bus.publish([request("r-1", WORKFLOW)])
    await bus.terminals(1 + 2 * bus.partitions)
    assert worker.terminate() == 0
    others = [topic for topic in TOPICS if topic is not REQUESTS]
    await spoil_all(bus, *others)
    outside = ClientBus(bus.bootstrap, bus.prefix, {})

    async with reading(outside, TOPICS) as reader:
        found = [stored async for batch in reader.to_end() for stored in batch]
    unreadable = [stored for stored in found if stored.fault]
    assert len(unreadable) == 2 * bus.partitions * len(TOPICS)
    async with picking(outside) as picker:
        picked = await picker.pick_all(
            [RecordPosition(REQUESTS, 0, 0), RecordPosition(REQUESTS, 0, 1)]
        )
        assert [one.fault is not None for one in picked] == [True, True]

    for arguments, code in (
        (("workflow", WORKFLOW, "--json"), 0),
        (("replay", "list", "--json"), 0),
        (("audit", "verify", "--json"), 1),  # what cannot be read is no Attempt
    ):
        ended = await answerbus(bus.bootstrap, bus.prefix, *arguments)
        assert "Traceback" not in ended.err, ended.err
        assert ended.code == code, (arguments, ended)
        assert json.loads(ended.out) is not None
