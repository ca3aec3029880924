"""Partitions added to topics in use: read within seconds, forwarded to their owners, once."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from answerbus.client.bus import Bus as ClientBus
from answerbus.client.client import Client
from answerbus.client.controls import find_effect, publish_control
from answerbus.control import Cancel
from answerbus.outcome import Result
from answerbus.partition import Layout
from answerbus.request import Request
from answerbus.topics import DEAD_LETTERS, LEDGER, REQUESTS, RUN_TOPICS, TOPICS
from tests.integration.answering import NOW
from tests.integration.bus import ANSWERED, DEP_BUMP, Bus, Worker, create_topics, request, until
from tests.integration.evidence import Evidence, JsonObject, assert_sound
from tests.integration.partitions import collect_wide, extend, recreate
from tests.integration.test_setup_errors import said_at_start

pytestmark = pytest.mark.kafka

WIDE = 7
WORKFLOWS = 40
SOON_S = 15.0
NOTICED_S = 3.0  # in which all that reads for lanes has seen which are open
LATENCY = {"median_s": 0.05, "sigma": 0.4, "max_s": 0.1}
RULES: list[JsonObject] = [{"reply": ANSWERED, "latency_s": LATENCY}]


def bodies(name: str, count: int) -> list[dict[str, Any]]:
    budget = {"attempts": 100}
    return [request(f"{name}-{n}", f"order-{n % WORKFLOWS}", budget=budget) for n in range(count)]


async def open_lanes(worker: Worker, count: int) -> None:
    """Wait until the worker has as many lanes, all of them open."""

    def are_open() -> bool:
        return list(worker.health["lanes"].values()) == ["open"] * count

    await until(are_open, f"{count} lanes are open")


def messages(worker: Worker) -> str:
    return "\n".join(str(line["message"]) for line in worker.log())


def assert_each_answered_once(evidence: Evidence, names: set[str]) -> None:
    ended = Counter(body["request_id"] for body in evidence.terminals)
    assert ended == dict.fromkeys(names, 1)


async def calls_ended(bus: Bus, count: int) -> None:
    await until(lambda: len(bus.ended_calls()) >= count, f"{count} calls have ended")


async def test_records_in_added_partitions_are_answered_within_seconds(bus: Bus) -> None:
    worker = bus.start_worker(bus.config(RULES))
    early, late = bodies("early", 80), bodies("late", 80)
    await bus.publish(early)
    await bus.terminals(len(early))

    wide = await extend(bus, [REQUESTS], WIDE)
    await wide.publish(late)
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for value in (b"no request", None):
            await producer.send_and_wait(bus.topic(REQUESTS), value, b"key", partition=WIDE - 1)
    found = await bus.terminals(len(early) + len(late) + 2, SOON_S)

    assert len(found) == len(early) + len(late) + 2
    health = worker.health
    assert health["ready"]
    assert "partitions 4, 5, 6 of" in " ".join(health["advice"])
    assert "is beyond the 4 of this deployment" in messages(worker)
    worker.terminate()
    evidence = await collect_wide(bus, wide)
    dead_letters = [body for body in evidence.terminals if body["request_id"] is None]
    assert [dead_letter["cause"]["kind"] for dead_letter in dead_letters] == ["undecodable"] * 2
    assert {dead_letter["origin"]["partition"] for dead_letter in dead_letters} == {WIDE - 1}
    assert Counter(body["request_id"] for body in evidence.terminals) == Counter(
        [str(body["request_id"]) for body in early + late] + [None, None]
    )
    assert_sound(evidence)


async def test_another_consumer_group_forwards_nothing_again(bus: Bus) -> None:
    """What it forwarded again had a second outcome, where its id was forgotten."""
    worker = bus.start_worker(bus.config(RULES))
    await open_lanes(worker, bus.partitions)
    wide = await extend(bus, [REQUESTS], WIDE)
    await wide.publish(bodies("late", 40))
    await bus.terminals(40)
    worker.terminate()
    other = replace(bus, kafka={**bus.kafka, "group_id": f"{bus.prefix}.other"})
    worker = other.start_worker(other.config(RULES))
    await open_lanes(worker, WIDE)
    await wide.publish(bodies("later", 40))
    await bus.terminals(80)
    worker.terminate()

    requests = await wide.records(REQUESTS)
    found = Counter(json.loads(record.value or b"{}")["request_id"] for record in requests)
    assert len(found) == 80
    assert max(found.values()) == 2, "each is there as published, and as forwarded"


async def test_people_are_heard_where_only_requests_have_more_partitions(bus: Bus) -> None:
    """A lane that only forwards has no partition of controls, and keeps no other from hearing."""
    await create_topics(bus, topics=RUN_TOPICS)
    worker = bus.start_worker(bus.config(RULES))
    await open_lanes(worker, bus.partitions)
    await extend(bus, [REQUESTS], WIDE)
    await open_lanes(worker, WIDE)
    await asyncio.sleep(NOTICED_S)
    cancel = Cancel(scope="workflow", workflow_id="order-1", by="me", reason="enough", at=NOW)

    client, layout = ClientBus(bus.bootstrap, bus.prefix, {}), Layout(bus.partitions)
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        published = await publish_control(client, producer, layout, cancel)
    async with asyncio.timeout(SOON_S):
        found = await find_effect(client, layout, published)

    assert found.effect == "remembered"


async def test_the_deadline_counts_from_the_first_place(bus: Bus) -> None:
    wide = await extend(bus, [REQUESTS], WIDE)
    await wide.publish(bodies("r", 40))
    bus.start_worker(bus.config(RULES))
    await bus.terminals(40)

    evidence = await collect_wide(bus, wide)
    places = {(r.partition, r.offset): r.timestamp for r in evidence.records[REQUESTS]}
    copies = [
        dict(record.headers)["answerbus_forwarded"].decode().split("/")
        for record in evidence.records[REQUESTS]
        if dict(record.headers).get("answerbus_forwarded")
    ]
    assert copies
    for partition, offset, milliseconds in copies:
        assert places[int(partition), int(offset)] == int(milliseconds)


@pytest.mark.long
@pytest.mark.parametrize("round_", range(2))
async def test_a_worker_killed_while_it_forwards_forwards_nothing_twice(
    bus: Bus, round_: int
) -> None:
    """The copy and the offset are one transaction: no ledger tells a second copy from the first."""
    wide = await extend(bus, [REQUESTS], WIDE)
    asked = bodies("r", 1_500)
    rubbish = 60
    await wide.publish(asked)
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for number in range(rubbish):
            await producer.send(bus.topic(REQUESTS), b"rubbish %d" % number, partition=WIDE - 1)
    config = bus.config(RULES)
    for count in (10, 60 + 100 * round_):
        worker = bus.start_worker(config)
        await calls_ended(bus, len(bus.ended_calls()) + count)
        worker.kill()
    worker = bus.start_worker(config)
    await bus.terminals(len(asked) + rubbish, 90.0)
    await until(lambda: worker.health["in_flight"] == 0, "nothing is in flight")
    worker.terminate()

    evidence = await collect_wide(bus, wide)
    forwarded = Counter(
        record.value
        for record in evidence.records[REQUESTS]
        if any(name == "answerbus_forwarded" for name, _ in record.headers)
    )
    assert forwarded
    assert set(forwarded.values()) == {1}
    ended = Counter(body["request_id"] or body["dead_letter_id"] for body in evidence.terminals)
    assert set(ended.values()) == {1}
    assert len(ended) == len(asked) + rubbish
    assert_sound(evidence)


@pytest.mark.long
async def test_partitions_added_to_every_topic_change_nothing(bus: Bus) -> None:
    config = bus.config(RULES)
    first = bus.start_worker(config)
    early = bodies("early", 40)
    await bus.publish(early)
    await bus.terminals(len(early))

    wide = await extend(bus, TOPICS, WIDE)
    await wide.publish(bodies("late", 40))
    await bus.terminals(80, SOON_S)
    second = bus.start_worker(config)  # one that starts afterwards, beside the other
    await wide.publish(bodies("later", 40))
    found = await bus.terminals(120, SOON_S)
    assert len(found) == 120
    await until(lambda: bool(second.health["ready"]), "the second one is ready")
    first.kill()
    await wide.publish(bodies("last", 40))
    await bus.terminals(160, 40.0)
    second.terminate()

    evidence = await collect_wide(bus, wide, TOPICS)
    names = {f"{name}-{n}" for name in ("early", "late", "later", "last") for n in range(40)}
    assert_each_answered_once(evidence, names)
    assert_sound(evidence)


async def test_a_topic_with_too_few_partitions_is_named_at_start(bus: Bus) -> None:
    config = bus.config(RULES)
    worker = bus.start_worker(config)
    await open_lanes(worker, bus.partitions)
    worker.terminate()
    await recreate(bus, DEAD_LETTERS, 2)

    message = await said_at_start(config)

    assert f"{bus.topic(DEAD_LETTERS)} has 2 partitions" in message
    assert "this deployment has 4" in message


async def test_the_number_is_found_behind_thousands_of_other_records(bus: Bus) -> None:
    """The lane's record is at the start of the ledger, in its first partition alone."""
    lane = {"kind": "lane", "v": 1, "partitions": bus.partitions, "openings_without_progress": 0}
    record = json.dumps({**lane, "worker": "w", "at": "2026-11-21T08:59:58.000Z"}).encode()
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        await producer.send_and_wait(bus.topic(LEDGER), record, b"lane", 0)
        for number in range(6_000):
            await producer.send(bus.topic(LEDGER), b"{}", b"closed:%d" % number, 0)
    await extend(bus, TOPICS, WIDE)

    seen = ClientBus(bus.bootstrap, bus.prefix, {})

    assert await seen.layout(*TOPICS) == Layout(bus.partitions)


async def test_clients_follow_the_deployment_not_the_topics(bus: Bus) -> None:
    worker = bus.start_worker(bus.config(RULES))
    await open_lanes(worker, bus.partitions)
    await extend(bus, TOPICS, WIDE)

    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        for n in range(12):
            body = Request.model_validate_json(json.dumps(request(f"r-{n}", f"order-{n}")))
            ended = await client.ask_request(body, timeout_s=SOON_S)
            assert isinstance(ended, Result)
            assert ended.answer == DEP_BUMP
            again: Any = await client.outcome_of(f"r-{n}", f"order-{n}", timeout_s=SOON_S)
            assert again.event_id == ended.event_id
