"""A run full of secrets, in keys, contexts, answers and errors of a provider: no log has one."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from aiohttp import web
from aiokafka import AIOKafkaProducer

from answerbus.topics import REQUESTS, TOPICS
from answerbus.trace import TRACE_PARENT
from tests.integration.bus import Bus, request, until

pytestmark = pytest.mark.kafka

MARK = "tell-nobody"
KEY, KEY_VARIABLE = f"sk-{MARK}", "TEST_LOGS_API_KEY"


class Provider:
    """Speaks OpenAI's API; how it misbehaves, the prompt says."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.keys: set[str] = set()

    async def answer(self, called: web.Request) -> web.StreamResponse:
        body = await called.text()
        assert MARK in body
        self.keys.add(called.headers["Authorization"])
        case = next(name for name in CASES if f"case:{name} " in body)
        self.seen[case] += 1
        response: web.StreamResponse = CASES[case]()
        return response


async def models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})


def message(**reply: Any) -> web.Response:
    choice = {"index": 0, "message": {"role": "assistant", **reply}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    body = {"id": KEY, "object": "chat.completion", "created": 1, "model": KEY, "usage": usage}
    return web.json_response({**body, "choices": [choice]})


def error(status: int) -> web.Response:
    fields = {"message": KEY, "type": KEY, "code": KEY, "param": KEY}
    return web.json_response({"error": fields}, status=status)


CASES: dict[str, Any] = {
    "malformed": lambda: message(content=f"{KEY} {{"),
    "invalid": lambda: message(content=json.dumps({"kind": KEY})),
    "refused": lambda: message(content=None, refusal=f"{MARK}, and {KEY}"),
    "rejected": lambda: error(400),
    "broken": lambda: error(500),
    "garbage": lambda: web.Response(text=f"<html>{MARK}", content_type="text/html"),
    "odd": lambda: web.json_response({"choices": MARK, "id": [MARK]}),
}


async def test_no_secret_is_in_a_log_and_no_key_in_a_record(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    provider = Provider()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", provider.answer)
    application.router.add_get("/v1/models", models)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    profile = (
        '[profiles.default]\nprovider = "openai"\nmodel = "m"\ncheck_model = false\n'
        f'base_url = "http://127.0.0.1:{port}/v1"\napi_key_env = "{KEY_VARIABLE}"\n'
    )
    worker = await asyncio.to_thread(
        bus.start_worker, bus.settings(profile), "--log-level", "debug"
    )
    try:
        await bus.publish(bodies())
        await publish_malformed_records(bus)
        terminals = await bus.terminals(len(CASES) + 4)
        await until(lambda: len(log_lines_of(bus)) >= len(CASES), "each was told of")
        assert worker.terminate() == 0
    finally:
        await runner.cleanup()

    log = worker.log_file.read_text()
    assert set(provider.seen) == set(CASES)
    assert provider.keys == {f"Bearer {KEY}"}
    assert any(MARK in json.dumps(terminal) for terminal in terminals), "there was one to tell"
    assert MARK not in log
    kept = [record for topic in TOPICS for record in await bus.records(topic)]
    written = [record for record in kept if b"***" in (record.value or b"")]
    assert {topic.name for topic in TOPICS if any(topic.name in one.topic for one in written)} >= {
        *("attempts", "refusals", "dead-letters"),
    }
    assert not any(KEY.encode() in (record.value or b"") for record in kept)
    assert not any(KEY.encode() in value for record in kept for _, value in record.headers)
    assert all(line.startswith("{") for line in log.splitlines())
    dead_letters = {
        t["request_id"]: t["cause"]["kind"] for t in terminals if t["kind"] == "dead_letter"
    }
    for name in CASES:
        if name != "refused":
            line = log_lines_of(bus)[name]
            assert line.startswith("dead letter: ")
            assert line.endswith(f"{dead_letters[name]}, plan_proposal.v1, profile default")


def log_lines_of(bus: Bus) -> dict[str, str]:
    """What was said of each request; each line names its workflow and its trace too."""
    lines = [line for line in bus.workers[0].log() if "request_id" in line]
    assert {line["workflow_id"] for line in lines} <= {f"order-{name}" for name in NAMES}
    assert all(len(line["trace_id"]) == 32 for line in lines)
    return {line["request_id"]: line["message"] for line in lines}


NAMES = (*CASES, "hostile")


def bodies() -> list[dict[str, Any]]:
    hostile = {"type": "object", "properties": {MARK: {"$ref": f"https://{MARK}/x"}}}
    inline = {"kind": "inline", "name": "n", "json_schema": hostile}
    fact = {"name": "f", "value": MARK, "trust": "untrusted"}
    asked = {name: {"instructions": f"case:{name} {MARK}", "facts": [fact]} for name in CASES}
    return [
        *(
            request(name, f"order-{name}", context=context, budget={"attempts": 1})
            for name, context in asked.items()
        ),
        request("hostile", "order-hostile", answer_schema=inline),
    ]


async def publish_malformed_records(bus: Bus) -> None:
    """Bytes that are no request, with the mark in value, key, and names and texts of headers."""
    headers = [(MARK, MARK.encode()), (TRACE_PARENT, MARK.encode())]
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for value in (MARK.encode(), json.dumps({"request_id": MARK}).encode(), b"\xff"):
            name = bus.topic(REQUESTS)
            await producer.send_and_wait(name, value, MARK.encode(), 0, headers=headers)
