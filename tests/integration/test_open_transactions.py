"""A transaction that somebody else leaves open in what a worker reads is named at `/ready`."""

import json
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaProducer

from answerbus.topics import CONTROLS, REQUESTS, RUN_TOPICS, Topic
from tests.integration.bus import Bus, Worker, create_topics, request, until
from tests.integration.test_health import ready, scrape

pytestmark = pytest.mark.kafka

STRANGER = "a-stranger"


@pytest.mark.long
@pytest.mark.parametrize("topic", [REQUESTS, CONTROLS], ids=lambda topic: topic.name)
async def test_an_open_transaction_of_a_stranger_is_named_with_its_ids(
    bus: Bus, topic: Topic
) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    worker = bus.start_worker(bus.config([{"reply": {"kind": "answered", "content": "{}"}}]))
    await until(lambda: ready(worker)["ready"], "the worker is ready")
    body = json.dumps(request("held", "order-1")).encode()
    async with AIOKafkaProducer(
        bootstrap_servers=bus.bootstrap, transactional_id=f"{bus.prefix}.{STRANGER}"
    ) as stranger:
        await stranger.begin_transaction()
        sent = await stranger.send_and_wait(bus.topic(topic), body, partition=2)
        await until(lambda: "2" in ready(worker)["stuck"], "the lane is named")
        await until(lambda: "producer id" in reason(ready(worker)), "so is who holds it")
        message = reason(ready(worker))
        code = status(worker)
        held_s = scrape(worker)["answerbus_lane_held_back_seconds", (("partition", "2"),)]
        await stranger.abort_transaction()
    await until(lambda: ready(worker)["ready"], "the lane goes on")

    assert code == 503
    assert message.startswith(
        f"an open transaction holds {bus.topic(topic)} from offset {sent.offset} to "
        f"{sent.offset + 1} "
    )
    assert f"(transactional id {bus.prefix}.{STRANGER}, producer id " in message
    assert f"epoch 0, from offset {sent.offset})" in message
    assert held_s >= 5.0
    assert scrape(worker)["answerbus_lane_held_back_seconds", (("partition", "2"),)] == 0
    logged = [line["message"] for line in worker.log() if "an open transaction" in line["message"]]
    assert len(logged) == 1


def status(worker: Worker) -> int:
    """What an orchestrator goes by."""
    return httpx.get(worker.addresses[0] + "/ready").status_code


def reason(body: dict[str, Any]) -> str:
    """Why lane 2 is stuck."""
    return str(body["stuck"].get("2", ""))
