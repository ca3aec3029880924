"""`answerbus topics move`: to another number of partitions, with nothing lost and nothing twice."""

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import murmur2

from answerbus.client.client import Client
from answerbus.topics import (
    ATTEMPTS,
    DEAD_LETTERS,
    LEASES,
    LEDGER,
    REFUSALS,
    REQUESTS,
    RESULTS,
    RETRIES,
    RUN_TOPICS,
    RUNS,
    STEPS,
)
from tests.integration.bus import ANSWERED, Bus, create_topics, request, until
from tests.integration.command_line import Ended, answerbus, start
from tests.integration.evidence import JsonObject
from tests.integration.evidence_packs import is_whole

pytestmark = pytest.mark.kafka

WORKFLOWS = 40
ATTEMPTS_EACH = 30
LIMIT_S = 60.0
SESSION_S = 20.0
HELD = 4
# Every fourth request is tried again after a while, so that there are open retries at any moment.
RULES: list[JsonObject] = [
    {"when": {"contains": "again", "attempt": 1}, "reply": {"kind": "truncated"}},
    {"reply": ANSWERED, "latency_s": {"median_s": 0.1, "sigma": 0.4, "max_s": 0.3}},
]


def bodies(name: str, count: int) -> list[dict[str, Any]]:
    budget = {"attempts": ATTEMPTS_EACH}
    return [
        request(
            f"{name}-{n}",
            f"order-{n % WORKFLOWS}",
            "Propose it again." if n % 4 == 0 else "Propose it.",
            budget=budget,
        )
        for n in range(count)
    ]


def settings(bus: Bus) -> Path:
    return bus.config(RULES, worker={"retry_first_s": 2.0, "max_in_flight": 40})


async def moved(bus: Bus, partitions: int, *options: str) -> Ended:
    command = ("topics", "move", "--partitions", str(partitions), "--json", *options)
    return await answerbus(bus.bootstrap, bus.prefix, *command)


async def moved_at_last(bus: Bus, partitions: int) -> dict[str, Any]:
    """Once the sessions of workers that were killed have ended."""
    async with asyncio.timeout(SESSION_S):
        while (done := await moved(bus, partitions)).code != 0:
            assert "stop all workers first" in done.err, done.err
            await asyncio.sleep(0.5)
    report: dict[str, Any] = json.loads(done.out)
    return report


async def calls_ended(bus: Bus, count: int) -> None:
    await until(lambda: len(bus.ended_calls()) >= count, f"{count} calls have ended")


def owner(workflow_id: str, partitions: int) -> int:
    return int(murmur2(workflow_id.encode()) & 0x7FFFFFFF) % partitions


async def assert_whole(bus: Bus, asked: Sequence[dict[str, Any]], *, partitions: int) -> None:
    """Over all partitions: one terminal each, in order, within the budget, nothing left over."""
    everything = {
        topic: await bus.records(topic)
        for topic in (REQUESTS, RESULTS, REFUSALS, DEAD_LETTERS, ATTEMPTS, LEDGER, RETRIES)
    }
    ended = Counter(
        json.loads(record.value)["request_id"]
        for topic in (RESULTS, REFUSALS, DEAD_LETTERS)
        for record in everything[topic]
    )
    assert ended == {body["request_id"]: 1 for body in asked}
    attempts = [json.loads(record.value) for record in everything[ATTEMPTS]]
    reported = Counter((attempt["request_id"], attempt["attempt"]) for attempt in attempts)
    twice = [a for a in attempts if reported[a["request_id"], a["attempt"]] > 1]
    assert twice == []
    assert {(call["request_id"], call["attempt"]) for call in bus.calls()} <= set(reported)
    counted = Counter(attempt["account_id"] for attempt in attempts if attempt["counted"])
    assert_accounts(everything[LEDGER], counted, partitions)
    last = {(r.partition, r.key): r.value for r in everything[RETRIES]}
    assert set(last.values()) <= {None}
    assert_in_order(bus.calls(), asked)
    whole = await answerbus(bus.bootstrap, bus.prefix, "audit", "verify", "--json")
    assert whole.code == 0, whole.out


def assert_accounts(ledger: Iterable[Any], counted: Counter[str], partitions: int) -> None:
    last = {(record.partition, record.key): record.value for record in ledger}
    accounts = [
        (partition, json.loads(value))
        for (partition, key), value in last.items()
        if key.startswith(b"account:") and value is not None
    ]
    assert len(accounts) == len({account["account_id"] for _, account in accounts})
    for partition, account in accounts:
        assert partition == owner(account["workflow_id"], partitions)
        assert account["spent"]["attempts"] == counted[account["account_id"]] <= ATTEMPTS_EACH
        assert account["in_flight"] == account["open"] == []


def assert_in_order(calls: Sequence[JsonObject], asked: Sequence[dict[str, Any]]) -> None:
    """The requests of a workflow are called in the order in which they were published."""
    place = {body["request_id"]: number for number, body in enumerate(asked)}
    workflow = {body["request_id"]: body["workflow_id"] for body in asked}
    called: dict[str, list[int]] = defaultdict(list)
    for call in calls:
        called[workflow[call["request_id"]]].append(place[call["request_id"]])
    for numbers in called.values():
        assert numbers == sorted(numbers)


@pytest.mark.long
@pytest.mark.parametrize("partitions", [7, 3])
async def test_a_deployment_goes_on_with_another_number_of_partitions(
    bus: Bus, partitions: int, tmp_path: Path
) -> None:
    config = settings(bus)
    asked = bodies("r", 400)
    worker = bus.start_worker(config)
    await bus.publish(asked[:300])
    await calls_ended(bus, 120)

    refused = await moved(bus, partitions)
    assert refused.code == 3
    assert "stop all workers first" in refused.err
    await until(lambda: worker.health["held"] >= HELD, "some retries are open")
    worker.kill()  # with calls in flight, retries open and requests unread
    await bus.publish(asked[300:])
    report = await moved_at_last(bus, partitions)

    assert (report["before"], report["after"]) == (4, partitions)
    assert min(report["ledger"], report["requests"]) > 0
    assert json.loads((await moved(bus, partitions)).out)["ledger"] == 0
    wide = replace(bus, partitions=max(partitions, 4))
    bus.start_worker(config)
    await bus.publish(asked[:50])  # copies of what is closed, by a client that knows the old number
    more = bodies("more", 80)
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        assert (await client.outcome_of("r-0", "order-0", timeout_s=LIMIT_S)).request_id == "r-0"
    await replace(bus, partitions=partitions).publish(more)
    await wide.terminals(len(asked) + len(more), LIMIT_S)
    last = bus.workers[-1]
    await until(lambda: last.health["in_flight"] + last.health["held"] == 0, "all is done")
    assert last.health["ready"]
    looked = await moved(bus, 5, "--dry-run")
    assert looked.code == 0, looked.err
    assert "stop all workers first" in json.loads(looked.out)["obstacles"][0]
    last.terminate()

    await wide.settled()
    await assert_whole(wide, asked + more, partitions=partitions)
    packed = await is_whole(wide, tmp_path, "--since", "1h")
    assert packed["outcomes"] == len(asked + more)
    assert (await is_whole(wide, tmp_path, "--workflow", "order-1"))["attempts"] > 0
    reported = await answerbus(bus.bootstrap, bus.prefix, "workflow", "order-1", "--json")
    results = {
        entry["request_id"] for entry in json.loads(reported.out) if entry["kind"] == "result"
    }
    assert {"r-1", "more-1"} <= results


async def test_a_dry_run_writes_nothing(bus: Bus) -> None:
    worker = bus.start_worker(settings(bus))
    await bus.publish(bodies("r", 40))
    await bus.terminals(40)
    worker.terminate()
    before = {topic: await bus.records(topic) for topic in (LEDGER, RETRIES, REQUESTS)}

    done = await moved(bus, 7, "--dry-run")

    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["ledger"] > 0
    assert len(report["grown"]) == 7
    after = {topic: await bus.records(topic) for topic in (LEDGER, RETRIES, REQUESTS)}
    assert {topic: len(found) for topic, found in before.items()} == {
        topic: len(found) for topic, found in after.items()
    }


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
async def test_a_move_that_is_killed_again_and_again_ends_as_one_that_was_not(
    bus: Bus, seed: int
) -> None:
    chance = random.Random(seed)
    config = settings(bus)
    asked = bodies("r", 600)
    worker = bus.start_worker(config)
    await bus.publish(asked[:400])
    await calls_ended(bus, 150)
    worker.terminate()
    await bus.publish(asked[400:])
    command = ("topics", "move", "--partitions", "7")
    for _ in range(4):
        process = await start(bus.bootstrap, bus.prefix, *command)
        await asyncio.sleep(chance.uniform(1.2, 3.2))  # in which it loads, and then moves
        if process.returncode is None:
            process.kill()
        await process.communicate()
    await moved_at_last(bus, 7)

    wide = replace(bus, partitions=7)
    worker = bus.start_worker(config)
    await wide.terminals(len(asked), LIMIT_S)
    await until(lambda: worker.health["in_flight"] + worker.health["held"] == 0, "all is done")
    worker.terminate()
    await wide.settled()
    await assert_whole(wide, asked, partitions=7)


async def test_no_worker_starts_in_the_middle_of_a_move(bus: Bus, tmp_path: Path) -> None:
    worker = bus.start_worker(settings(bus))
    await bus.publish(bodies("r", 40))
    await bus.terminals(40)
    worker.terminate()
    await mark_moving(bus, 7)

    with pytest.raises(AssertionError, match="A move from 4 to 7 partitions has begun"):
        bus.start_worker(settings(bus))

    assert json.loads((await moved(bus, 4)).out)["ledger"] == 0  # back
    bus.start_worker(settings(bus))


async def test_a_group_that_has_read_nothing_moves_nothing(bus: Bus) -> None:
    """All requests would be unread for it, also those whose ids are forgotten."""
    worker = bus.start_worker(settings(bus))
    await bus.publish(bodies("r", 4))
    await bus.terminals(4)
    worker.terminate()
    command = ("topics", "move", "--partitions", "7", "--json")
    refused = await answerbus(bus.bootstrap, bus.prefix, *command, group_id="acme.other")

    assert refused.code == 3
    assert "are of the consumer group" in refused.err
    assert "and the settings name acme.other" in refused.err
    assert (done := await moved(bus, 7)).code == 0, done.err


async def test_a_cancellation_is_applied_before_a_move_and_not_again_after_it(bus: Bus) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    config = settings(bus)
    later = next(f"w-{n}" for n in range(99) if owner(f"w-{n}", 7) == owner("order-1", 4))
    bus.start_worker(config).terminate()
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        await client.cancel_workflow("order-1", by="ops", reason="not needed")
    await bus.publish(bodies("r", 1))

    refused = await moved(bus, 7)
    assert refused.code == 3
    assert "Cancellations that no worker has read: 1 (workflow order-1)" in refused.err
    worker = bus.start_worker(config)
    await bus.terminals(1)
    await applied(bus, 1)
    worker.terminate()
    await forget_cancellations(bus)
    assert (done := await moved(bus, 7)).code == 0, done.err

    bus.start_worker(config)
    wide = replace(bus, partitions=7)
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        await client.cancel_workflow(later, by="ops", reason="behind the first, in its partition")
    assert [one["workflow_id"] for one in await applied(wide, 2)] == ["order-1", later]


async def test_what_lanes_said_of_budgets_is_over_where_their_partition_comes_back(
    bus: Bus,
) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    worker = bus.start_worker(settings(bus))
    await bus.publish(bodies("r", 1))
    await bus.terminals(1)
    worker.terminate()
    assert (done := await moved(bus, 7)).code == 0, done.err
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for _ in range(2):
            await producer.send_and_wait(bus.topic(LEASES), b"{}", partition=5)
    for partitions in (4, 7):
        assert (done := await moved(bus, partitions)).code == 0, done.err

    records = await replace(bus, partitions=7).records(LEDGER)
    lanes = {r.partition: json.loads(r.value) for r in records if r.key == b"lane" and r.value}
    assert {number: lane.get("leases_at", 0) for number, lane in lanes.items()} == {
        number: 2 if number == 5 else 0 for number in range(7)
    }


async def applied(bus: Bus, count: int) -> list[dict[str, Any]]:
    """The effects of controls, once there are so many."""
    async with asyncio.timeout(LIMIT_S):
        while len(found := await bus.everything(STEPS)) < count:
            await asyncio.sleep(0.1)
    return found


async def forget_cancellations(bus: Bus) -> None:
    """As a lane forgets them a day later."""
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for record in await bus.records(RUNS):
            await producer.send_and_wait(bus.topic(RUNS), None, record.key, record.partition)


async def mark_moving(bus: Bus, partitions: int) -> None:
    """What a move that was killed at once leaves behind."""
    lanes = [r for r in await bus.records(LEDGER) if r.key == b"lane"]
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for record in {record.partition: record for record in lanes}.values():
            value = json.loads(record.value) | {"moving_to": partitions}
            await producer.send_and_wait(
                bus.topic(LEDGER), json.dumps(value).encode(), b"lane", record.partition
            )
