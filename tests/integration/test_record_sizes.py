"""Topics whose limit was lowered while a worker runs: what they do not take ends, and alone."""

import asyncio
import json
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from answerbus.partition import partition_of
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, RESULTS, RUNS, STEPS, TOOL_RESULTS, Topic
from tests.integration.bus import Bus, request
from tests.integration.test_runs import CALLS, ask, calls, prepared, say, says
from tests.integration.topic_settings import change_settings

pytestmark = pytest.mark.kafka

Json = dict[str, Any]

TAKES = 40_000
LARGE = "x" * 50_000
TEXT: Json = {"answer_schema": {"kind": "text"}, "policy": {"ordering": "none"}}


async def lower(bus: Bus, *topics: Topic) -> None:
    limit = {"max.message.bytes": str(TAKES)}
    await change_settings(bus, {topic: {**topic.settings(), **limit} for topic in topics})


async def test_a_result_that_its_topic_does_not_take_ends_its_request_alone(bus: Bus) -> None:
    """Six others have their results, which fit the topic one by one and not in one batch."""
    middle = "y" * (TAKES // 3)
    rules: list[Json] = [
        {"when": {"request_id": "large"}, "reply": {"kind": "answered", "content": LARGE}},
        {"reply": {"kind": "answered", "content": middle}, "latency_s": 0.5},
    ]
    worker = bus.start_worker(bus.config(rules))
    await lower(bus, RESULTS)
    names = [f"r-{number}" for number in range(6)]
    await bus.publish(request(name, "w-1", "Say it.", **TEXT) for name in ("large", *names))
    ended = {event["request_id"]: event for event in await bus.terminals(7)}

    assert ended.keys() == {"large", *names}
    assert ended["large"]["cause"] == {"kind": "answer_too_large"}
    assert ended["large"]["notes"][-1].endswith(" bytes is larger than the topic results takes")
    assert {ended[name]["kind"] for name in names} == {"result"}
    assert sorted(call["request_id"] for call in bus.calls()) == ["large", *names]
    attempts = [e for e in await bus.everything(ATTEMPTS) if e["request_id"] == "large"]
    assert [(e["outcome"], e["counted"]) for e in attempts] == [("dead_letter", True)]
    assert worker.terminate() == 0


async def test_a_dead_letter_that_its_topic_does_not_take_leaves_out_its_request(bus: Bus) -> None:
    worker = bus.start_worker(bus.config([{"reply": {"kind": "answered", "content": LARGE}}]))
    await lower(bus, RESULTS, DEAD_LETTERS)
    await bus.publish([request("r-1", "w-1", LARGE, **TEXT)])
    (letter,) = await bus.terminals(1)

    assert (letter["request_id"], letter["request"], letter["raw"]) == ("r-1", None, None)
    assert letter["cause"] == {"kind": "answer_too_large"}
    assert len(bus.calls()) == 1
    assert worker.terminate() == 0


async def first_call(bus: Bus) -> Json:
    """The first call of a tool; nobody else reads it."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bus.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    async with asyncio.timeout(60), consumer:
        consumer.assign([TopicPartition(bus.topic(CALLS), 0)])
        found: Json = json.loads((await consumer.getone()).value)
    return found


async def test_what_a_run_cannot_write_down_ends_it(bus: Bus) -> None:
    """A result of a tool, and a step: its private records are ended, and no call is left open."""
    rules: list[Json] = [
        {"when": {"request_id": "step"}, "reply": calls("echo", phrase=LARGE)},
        {"when": {"request_id": "plain"}, "reply": says("A text.")},
        {"reply": calls("echo", phrase="short")},
    ]
    worker = bus.start_worker(await prepared(bus, rules))
    await lower(bus, STEPS)
    await bus.publish([ask("result", "w-1")])
    call = await first_call(bus)
    about = {name: call[name] for name in ("call_id", "workflow_id")}
    result = {"kind": "tool_result", "outcome": {"kind": "ok", "value": LARGE}, **about}
    place = partition_of("w-1", bus.partitions)
    await say(bus, bus.topic(TOOL_RESULTS), {**result, "token": call["reply"]["token"]}, place)
    await bus.publish([ask("step", "w-1"), ask("plain", "w-1", agent=None)])
    ended = {event["request_id"]: event for event in await bus.terminals(3)}

    assert ended["plain"]["kind"] == "result"
    assert ended["step"]["cause"] == {"kind": "answer_too_large"}
    cause = ended["result"]["cause"]
    assert (cause["kind"], cause["by"]) == ("cancelled", "answerbus")
    assert cause["reason"].endswith(" bytes is larger than the topic steps takes")
    ends = [e["outcome"]["kind"] for e in await bus.everything(STEPS) if e["kind"] == "tool_ended"]
    assert ends == ["cancelled"]
    assert sorted(one["request_id"] for one in bus.calls()) == ["plain", "result", "step"]
    private = {record.key: record.value for record in await bus.records(RUNS)}
    assert set(private.values()) == {None}
    assert worker.terminate() == 0
