"""Rights that are taken away and given back, topics that go and come: red, and then it works."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from answerbus.topics import CONTROLS, LEDGER, REQUESTS, RESULTS, RETRIES, RUN_TOPICS, TOPICS, Topic
from tests.integration.bus import ANSWERED, Bus, Worker, create_topics, request, until
from tests.integration.kafka_admin import kafka_admin
from tests.integration.rights import DESCRIBE, GROUP, PASSWORD, READ, TOPIC, TRANSACTIONAL_ID, WRITE
from tests.integration.secured import Secured, secured_broker

pytestmark = pytest.mark.kafka

STUCK_AFTER_S = 4.0
AWAY_S = 8.0  # longer than the session of 6 s
LIMIT_S = 60.0
OTHER_PASSWORD = "battery-staple"


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KAFKA_PASSWORD", PASSWORD)


@pytest.fixture
async def bus(
    secured: Secured, make_prefix: Callable[[], str], tmp_path: Path, password: None
) -> AsyncIterator[Bus]:
    """A bus whose workers come in by password, with all that they need."""
    settings = secured.settings("SASL_PLAINTEXT")
    bus = Bus(secured.plain, make_prefix(), 2, tmp_path, kafka=settings)
    await create_topics(bus)
    secured.allow_worker(bus.prefix)
    yield bus
    bus.stop_workers()


async def at_work(bus: Bus) -> Worker:
    config = bus.config([{"reply": ANSWERED}], worker={"stuck_after_s": STUCK_AFTER_S})
    worker = await asyncio.to_thread(bus.start_worker, config)
    await until(lambda: lanes(worker) == ["open"] * bus.partitions, "its lanes are open", LIMIT_S)
    return worker


def lanes(worker: Worker) -> list[str]:
    return list(worker.health["lanes"].values())


async def told(worker: Worker, what: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Wait until `/ready` is red and says so."""
    texts: list[dict[str, Any]] = [{}]

    def is_so() -> bool:
        texts.append(worker.health)
        return not texts[-1]["ready"] and what in str(texts[-1])

    try:
        await until(is_so, what, limit_s)
    except AssertionError:
        raise AssertionError(f"{what} is not in {texts[-1]}") from None
    return texts[-1]


async def green(worker: Worker) -> None:
    texts: list[dict[str, Any]] = [{}]

    def is_so() -> bool:
        texts.append(worker.health)
        return bool(texts[-1]["ready"]) and bool(texts[-1]["lanes"])

    try:
        await until(is_so, "it is ready", LIMIT_S)
    except AssertionError:
        raise AssertionError(texts[-1]) from None


async def publish(bus: Bus, first: int) -> None:
    await bus.publish([request(f"r-{n}", f"order-{n}") for n in range(first, first + 6)])


async def answered(bus: Bus, count: int) -> None:
    ids = [event["request_id"] for event in await bus.terminals(count, LIMIT_S)]
    assert sorted(ids) == sorted({f"r-{n}" for n in range(count)})


@pytest.mark.long
async def test_the_right_to_the_group_goes_and_comes_back(secured: Secured, bus: Bus) -> None:
    worker = await at_work(bus)
    group = f"{bus.prefix}.worker"
    secured.revoke(GROUP, group, READ)
    await publish(bus, 0)
    red = await told(worker, f"no right to the consumer group {group}")
    await asyncio.sleep(AWAY_S)
    still = await told(worker, "the consumer group", 5.0)
    secured.allow(GROUP, group, READ)
    await green(worker)
    await publish(bus, 6)
    await answered(bus, 12)
    await green(worker)

    assert "grant the user Read on the group" in str(red)
    assert not still["ready"]
    assert worker.terminate() == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "right", [pytest.param(READ, id="read"), pytest.param(DESCRIBE, id="describe")]
)
async def test_the_right_to_the_requests_goes_and_comes_back(
    secured: Secured, bus: Bus, right: Any
) -> None:
    worker = await at_work(bus)
    name, others = bus.topic(REQUESTS), (READ, WRITE, DESCRIBE)
    secured.revoke(TOPIC, f"{bus.prefix}.*", *others)
    for topic in ("results", "refusals", "dead-letters", "attempts"):
        secured.allow(TOPIC, f"{bus.prefix}.{topic}.v1", *others)
    for private in (LEDGER, RETRIES):
        secured.allow(TOPIC, bus.topic(private), *others)
    if right is READ:
        secured.allow(TOPIC, name, WRITE, DESCRIBE)
    await publish(bus, 0)
    await told(worker, f"the topic {name}")
    await asyncio.sleep(AWAY_S)
    await told(worker, f"the topic {name}", 5.0)
    secured.allow(TOPIC, name, *others)
    await green(worker)
    await publish(bus, 6)
    await answered(bus, 12)
    await green(worker)


async def test_the_right_to_the_transactional_ids_has_words(secured: Secured, bus: Bus) -> None:
    worker = await at_work(bus)
    ids = f"{bus.prefix}.lane.*"
    secured.revoke(TRANSACTIONAL_ID, ids, WRITE, DESCRIBE)
    await publish(bus, 0)
    red = await told(worker, "no right to the transactional id")
    secured.allow(TRANSACTIONAL_ID, ids, WRITE, DESCRIBE)
    await green(worker)
    await answered(bus, 6)

    assert all(not why.endswith(": ") for why in red["stuck"].values())


async def delete(bus: Bus, topic: Topic) -> None:
    async with kafka_admin(bus.bootstrap) as admin:
        await admin.delete_topics([bus.topic(topic)])


async def test_the_right_to_cancellations_goes_and_comes_back(secured: Secured, bus: Bus) -> None:
    """Without agents, too: a request that was cancelled would be asked and paid for."""
    await create_topics(bus, topics=RUN_TOPICS)
    worker = await at_work(bus)
    secured.revoke(TOPIC, f"{bus.prefix}.*", READ, WRITE, DESCRIBE)
    for topic in (*TOPICS, *RUN_TOPICS):
        rights = (WRITE, DESCRIBE) if topic is CONTROLS else (READ, WRITE, DESCRIBE)
        secured.allow(TOPIC, bus.topic(topic), *rights)
    await told(worker, f"no right to the topic {bus.topic(CONTROLS)}")
    secured.allow(TOPIC, bus.topic(CONTROLS), READ)
    await green(worker)


@pytest.mark.long
@pytest.mark.parametrize("topic", [RESULTS, LEDGER, CONTROLS], ids=str)
async def test_a_topic_that_is_deleted_is_named_until_it_is_there_again(
    bus: Bus, topic: Topic
) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    worker = await at_work(bus)
    await delete(bus, topic)
    await publish(bus, 0)
    await told(worker, f"the topic {bus.topic(topic)} is missing")
    await create_topics(bus, topics=(topic,))
    await green(worker)


@pytest.mark.long
async def test_a_requests_topic_that_is_deleted_and_made_again(secured: Secured, bus: Bus) -> None:
    worker = await at_work(bus)
    await publish(bus, 0)
    await answered(bus, 6)
    await delete(bus, REQUESTS)
    red = await told(worker, f"the topic {bus.topic(REQUESTS)} is missing")
    await asyncio.sleep(AWAY_S)
    await told(worker, "is missing", 5.0)
    await create_topics(bus)
    await green(worker)
    await publish(bus, 6)
    await answered(bus, 12)
    await green(worker)

    assert red["reasons"]


async def test_a_requests_topic_that_is_made_again_at_once(secured: Secured, bus: Bus) -> None:
    """Nobody sees it missing; what is new in it is before what was read of the old one."""
    worker = await at_work(bus)
    for first in (0, 6, 12):
        await publish(bus, first)
    await answered(bus, 18)
    await delete(bus, REQUESTS)
    await create_topics(bus)
    await publish(bus, 18)
    await answered(bus, 24)
    await green(worker)


@pytest.mark.long
@pytest.mark.usefixtures("password")
async def test_a_password_that_is_changed_set_back_and_changed_with_its_file(
    tmp_path: Path, make_prefix: Callable[[], str]
) -> None:
    """The broker asks again every few seconds; who does not answer well is cut off."""
    often = {"connections.max.reauth.ms": "3000"}
    with secured_broker(tmp_path / "own", often) as own:
        file = tmp_path / "password"
        file.write_text(PASSWORD)
        settings = own.settings("SASL_SSL", sasl_mechanism="SCRAM-SHA-512")
        del settings["sasl_plain_password_env"]
        settings["sasl_plain_password_file"] = str(file)
        bus = Bus(own.plain, make_prefix(), 2, tmp_path, kafka=settings)
        await create_topics(bus)
        own.allow_worker(bus.prefix)
        try:
            worker = await at_work(bus)
            own.set_scram_password("wrong-donkey")
            await publish(bus, 0)
            red = await told(worker, "the broker refuses the user worker or its password")
            own.set_scram_password(PASSWORD)
            await green(worker)
            await answered(bus, 6)
            own.set_scram_password(OTHER_PASSWORD)
            file.write_text(OTHER_PASSWORD)
            await publish(bus, 6)
            await answered(bus, 12)
            await green(worker)
        finally:
            bus.stop_workers()

    message = str(red) + worker.log_file.read_text()
    assert PASSWORD not in message
    assert OTHER_PASSWORD not in message
