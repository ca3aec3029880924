"""A run on a real Kafka: steps, a tool server, a worker that is killed between, and people."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from answerbus.call_id import call_id
from answerbus.partition import partition_of
from answerbus.request_key import RequestKey
from answerbus.topics import (
    APPROVALS,
    CONTROLS,
    DEAD_LETTERS,
    RESULTS,
    RUN_TOPICS,
    RUNS,
    STEPS,
    TOPICS,
    tool_calls,
    toolset_cards,
)
from tests.integration.bus import Bus, create_topics, request, until
from tests.integration.evidence_packs import is_whole
from tests.integration.kafka_admin import kafka_admin

pytestmark = pytest.mark.kafka

Json = dict[str, Any]

CALLS = tool_calls("shop")
CARD: Json = {
    "kind": "toolset",
    "toolset": "shop",
    "tools": [
        {
            "name": "echo",
            "description": "Say a phrase again.",
            "args_schema": {
                "type": "object",
                "properties": {"phrase": {"type": "string"}},
                "required": ["phrase"],
                "additionalProperties": False,
            },
        },
        {
            "name": "pay",
            "args_schema": {"type": "object"},
            "delivery": "at_most_once",
            "approval": "always",
        },
        {
            "name": "refund",
            "args_schema": {"type": "object"},
            "delivery": "at_most_once",
            "reconcilable": True,
            "timeout_s": 1,
        },
    ],
}
AGENT = """
[agents.support]
instructions = "You say phrases again."
tools = ["shop.echo", "shop.pay"]

[agents.asking]
instructions = "You pay orders back."
tools = ["shop.refund"]
ask_person = true

[agents.haunted]
instructions = "You say phrases again."
tools = ["ghost.echo"]

[agents.deserted]
instructions = "You say phrases again."
tools = ["gone.echo"]
"""
GONE = tool_calls("gone")
OTHER_CARDS: list[Json] = [
    {"kind": "toolset", "toolset": name, "tools": [{**CARD["tools"][0], "timeout_s": 5}]}
    for name in ("ghost", "gone")
]


def calls(tool: str, toolset: str = "shop", **args: str) -> Json:
    action = {"kind": "tool_call", "name": f"{toolset}.{tool}", "args": args}
    return {"kind": "answered", "json": {"actions": [action]}}


def says(text: str) -> Json:
    return {"kind": "answered", "json": {"actions": [{"kind": "text_response", "content": text}]}}


SCHEMA: Json = {"type": "object", "required": ["street"]}
QUESTION: Json = {"question": "Where to?", "json_schema": SCHEMA}
ASKS: Json = {"kind": "tool_call", "name": "ask_person", "args": QUESTION}
REFUNDS: Json = calls("refund")
REFUNDS["json"]["actions"].append(ASKS)
RULES: list[Json] = [
    {"when": {"request_id": "lost", "contains": "High Street"}, "reply": says("Paid back.")},
    {"when": {"request_id": "lost"}, "reply": REFUNDS},
    {"when": {"contains": '"value": "second"'}, "reply": says("All is said.")},
    {"when": {"contains": '"value": "first"'}, "reply": calls("echo", phrase="second")},
    {"when": {"request_id": "paid"}, "reply": calls("pay")},
    {"when": {"contains": '"timed_out"'}, "reply": says("Nobody answers.")},
    {"when": {"request_id": "gone"}, "reply": calls("echo", "gone", phrase="x"), "latency_s": 4},
    {"when": {"request_id": "plain"}, "reply": says("A text.")},
    {"reply": calls("echo", phrase="first")},
]


def ask(name: str, workflow_id: str, **more: Any) -> Json:
    text = {"answer_schema": {"kind": "text"}, "agent": {"name": "support"}}
    return request(name, workflow_id, "Say it.", **{**text, **more})


@asynccontextmanager
async def tool_server(bus: Bus, ran: list[str], may_answer: asyncio.Event) -> AsyncIterator[None]:
    """One consume and one produce; it answers when it may. Results of refunds are lost."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bus.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer, consumer:
        consumer.assign([TopicPartition(bus.topic(CALLS), 0)])

        async def serve() -> None:
            async for record in consumer:
                call = json.loads(record.value)
                if call["kind"] == "tool_cancel":
                    continue
                about: Json = {"kind": "tool_reconciled", "finding": {"kind": "happened"}}
                if call["kind"] == "tool_call":
                    ran.append(call["call_id"])
                    if call["tool"] == "refund":
                        continue
                    await may_answer.wait()
                    value = call["args"].get("phrase", "paid")
                    about = {"kind": "tool_result", "outcome": {"kind": "ok", "value": value}}
                reply = call["reply"]
                fields = {
                    **about,
                    "call_id": call["call_id"],
                    "workflow_id": call["workflow_id"],
                    "token": reply["token"],
                }
                await producer.send_and_wait(
                    reply["topic"],
                    json.dumps(fields).encode(),
                    key=reply["key"].encode(),
                    partition=reply["partition"],
                )

        serving = asyncio.create_task(serve())
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.wait([serving])


async def say(bus: Bus, topic: str, event: Json, partition: int = 0) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        value = json.dumps(event).encode()
        key = event.get("toolset", "shop").encode()
        await producer.send_and_wait(topic, value, key=key, partition=partition)


async def prepared(bus: Bus, rules: list[Json] = RULES) -> Path:
    """Topics, a card, and a worker's settings with an agent.

    The topic of calls has fewer partitions than one of ours would have: others may make it, too.
    """
    await create_topics(bus, topics=RUN_TOPICS)
    lanes, bus.partitions = bus.partitions, 1
    await create_topics(bus, topics=[CALLS, GONE, *map(toolset_cards, ("shop", "ghost", "gone"))])
    bus.partitions = lanes
    for card in (CARD, *OTHER_CARDS):
        await say(bus, bus.topic(toolset_cards(card["toolset"])), card)
    return bus.config(rules, profiles=AGENT)


def call_of(request_id: str, workflow_id: str, attempt: int) -> str:
    return call_id(RequestKey(workflow_id, request_id), attempt, 0)


async def test_a_run_goes_on_after_a_kill_without_repeating_what_was_done(
    bus: Bus, tmp_path: Path
) -> None:
    config = await prepared(bus)
    ran: list[str] = []
    may_answer = asyncio.Event()
    async with tool_server(bus, ran, may_answer):
        first = bus.start_worker(config)
        await bus.publish([ask("r-1", "w-1"), ask("paid", "w-2")])
        await until(lambda: ran == [call_of("r-1", "w-1", 1)], "the first tool is called")
        first.kill()
        may_answer.set()
        bus.start_worker(config)
        (result,) = await bus.terminals(1)
        assert (result["answer"], result["run"]["steps"]) == ("All is said.", 2)
        assert ran == [call_of("r-1", "w-1", attempt) for attempt in (1, 2)]
        called = [call["request_id"] for call in bus.calls()]
        assert (called.count("r-1"), called.count("paid")) == (3, 1)

        (asked,) = [e for e in await bus.everything(STEPS) if e["kind"] == "approval_requested"]
        body = {"by": "ops", "reason": "why", "workflow_id": "w-2", "at": asked["at"]}
        place = partition_of("w-2", bus.partitions)
        wrong = {"call_id": asked["call_id"], "args_digest": "sha256:" + "0" * 64}
        approval = {"kind": "approval", "decision": "approved", **body}
        await say(bus, bus.topic(APPROVALS), {**approval, **wrong}, place)
        own = {"call_id": asked["call_id"], "args_digest": asked["args_digest"]}
        await say(bus, bus.topic(CONTROLS), {**approval, **own}, place)
        cancel = {"kind": "cancel", "scope": "request", "request_id": "paid", **body}
        await say(bus, bus.topic(CONTROLS), cancel, place)
        await bus.terminals(2)

    assert bus.workers[-1].terminate() == 0
    (dead_letter,) = await bus.everything(DEAD_LETTERS)
    assert dead_letter["cause"] == {"kind": "cancelled", "by": "ops", "reason": "why"}
    steps = await bus.everything(STEPS)
    applied = [event for event in steps if event["kind"] == "control_applied"]
    effects = {(one["effect"], one.get("is_misplaced", False)) for one in applied}
    assert effects == {("nothing", False), ("nothing", True), ("cancelled", False)}
    assert call_of("paid", "w-2", 1) not in ran
    assert len(await bus.everything(RESULTS)) == 1
    open_records = {record.key: record.value for record in await bus.records(RUNS)}
    assert set(open_records.values()) == {None}
    assert len(TOPICS) == 7, "a deployment without agents needs no more"
    evidence = await is_whole(bus, tmp_path, "--workflow", "w-1")
    assert (evidence["attempts"], evidence["steps"], evidence["definitions"]) == (3, 4, 1)


@pytest.mark.long
async def test_a_lost_result_is_found_out_and_the_first_answer_that_fits_counts(bus: Bus) -> None:
    config = await prepared(bus)
    ran: list[str] = []
    async with tool_server(bus, ran, asyncio.Event()):
        bus.start_worker(config)
        await bus.publish([ask("lost", "w-1", agent={"name": "asking"})])
        await until(lambda: len(ran) == 1, "the refund is called")
        (question,) = [e for e in await bus.everything(STEPS) if e["kind"] == "input_requested"]
        answer = {"kind": "input", "call_id": question["call_id"], "by": "ops"}
        answer |= {"workflow_id": "w-1", "at": question["at"]}
        place = partition_of("w-1", bus.partitions)
        for value in ("no street", {"street": "High Street"}, {"street": "Low Street"}):
            await say(bus, bus.topic(APPROVALS), {**answer, "value": value}, place)
        (result,) = await bus.terminals(1)

    assert (result["answer"], ran) == ("Paid back.", [call_of("lost", "w-1", 1)])
    steps = await bus.everything(STEPS)
    applied = [event["effect"] for event in steps if event["kind"] == "control_applied"]
    assert applied == ["invalid", "answered", "nothing"]
    ends = {e["tool"]: e for e in steps if e["kind"] == "tool_ended"}
    assert ends["shop.refund"]["reconciled"]
    assert ends["ask_person"]["outcome"] == {"kind": "ok", "value": {"street": "High Street"}}
    assert bus.workers[-1].terminate() == 0


@pytest.mark.long
async def test_a_toolset_without_a_topic_stops_no_lane(bus: Bus) -> None:
    """One never had a topic; another loses it between the question and the call."""
    bus.start_worker(await prepared(bus))
    await bus.publish([ask("ghost", "w-1", agent={"name": "haunted"})])
    (dead_letter,) = await bus.terminals(1)
    assert dead_letter["cause"] == {"kind": "missing_tools", "tools": ["ghost.echo"]}

    await bus.publish([ask("gone", "w-2", agent={"name": "deserted"})])
    await until(lambda: "gone" in {call["request_id"] for call in bus.calls()}, "it is asked")
    async with kafka_admin(bus.bootstrap) as admin:
        await admin.delete_topics([bus.topic(GONE)])
    unordered = {"ordering": "none"}
    await bus.publish([ask("plain", "w-2", agent=None, policy=unordered)])
    ended = {event["request_id"]: event for event in await bus.terminals(3)}

    assert [ended[name]["kind"] for name in ("plain", "gone")] == ["result", "result"]
    assert ended["gone"]["answer"] == "Nobody answers."
    (outcome,) = [e["outcome"] for e in await bus.everything(STEPS) if e["kind"] == "tool_ended"]
    assert outcome["kind"] == "timed_out"
    assert bus.workers[-1].terminate() == 0


async def test_a_worker_without_agents_cancels_plain_requests(bus: Bus) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    text = {"answer_schema": {"kind": "text"}}
    lane = partition_of("w-1", bus.partitions)
    about = {"workflow_id": "w-1", "by": "ops", "reason": "why", "at": "2026-11-21T10:00:00Z"}
    cancel = {"kind": "cancel", "scope": "request", "request_id": "r-1", **about}
    bus.start_worker(bus.config([{"reply": {"kind": "answered", "content": "Hello."}}]))
    await say(bus, bus.topic(CONTROLS), cancel, lane)
    await until_applied(bus, ["remembered"])
    await bus.publish([request("r-1", "w-1", "Say it.", **text)])
    await bus.publish([request("r-2", "w-1", "Say it.", **text)])
    await bus.terminals(2)
    whole = {**cancel, "scope": "workflow", "request_id": None}
    await say(bus, bus.topic(CONTROLS), whole, lane)
    await say(bus, bus.topic(CONTROLS), cancel, lane)
    await until_applied(bus, ["remembered", "remembered", "nothing"])

    (dead_letter,) = await bus.everything(DEAD_LETTERS)
    assert dead_letter["request_id"] == "r-1"
    assert dead_letter["cause"] == {"kind": "cancelled", "by": "ops", "reason": "why"}
    assert [call["request_id"] for call in bus.calls()] == ["r-2"]
    assert bus.workers[-1].terminate() == 0


async def until_applied(bus: Bus, effects: list[str]) -> None:
    async with asyncio.timeout(60):
        while [event["effect"] for event in await bus.everything(STEPS)] != effects:
            await asyncio.sleep(0.2)
