"""What one would write by hand: an aiokafka loop without budgets, order, audit or transactions.

A semaphore, one task per record, the watermark committed every 100 ms, an idempotent producer. Its
calls go through our own adapter (`--sdk adapter`), so that request and transport are the same, or
through `chat.completions.create`, on aiohttp or as the SDK comes, or without any SDK (`bare`).
"""

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiohttp
import httpx2
import openai
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from openai.types.chat import ChatCompletion
from pydantic import TypeAdapter

from answerbus.answers.plan_proposal import AskedPlanProposal
from answerbus.registry import Registry
from answerbus.request import Request
from services.settings.settings import Settings
from services.worker.adapters import backends
from services.worker.adapters.clock import SystemClock
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.openai import OpenAIApi
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered
from services.worker.core.attempt.turn import Turn
from services.worker.planning.planner import Planner
from services.worker.ports.provider import Provider
from tests.benchmarks.upstream import request_body
from tests.benchmarks.watermark import Watermark

COMMIT_EVERY_S = 0.1
RECORDS_PER_POLL_MAX = 500
TIMEOUT_S = 60.0
ANSWER: TypeAdapter[Any] = TypeAdapter(AskedPlanProposal)

Ask = Callable[[Prompt], Awaitable[str | None]]


class Loop:
    """One consumer, one producer, and as many calls at once as there are permits."""

    def __init__(self, options: argparse.Namespace, template: Prompt, ask: Ask) -> None:
        self._options = options
        self._template = template
        self._ask = ask
        self._free = asyncio.Semaphore(options.in_flight)
        self._marks: dict[TopicPartition, Watermark] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._consumer = AIOKafkaConsumer(
            options.requests,
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        self._producer = AIOKafkaProducer(
            bootstrap_servers=options.bootstrap, enable_idempotence=True, max_batch_size=256 * 1024
        )

    async def run(self) -> None:
        """Until cancelled."""
        await self._consumer.start()
        await self._producer.start()
        committing = asyncio.create_task(self._commit())
        try:
            while True:
                await self._take(
                    await self._consumer.getmany(timeout_ms=20, max_records=RECORDS_PER_POLL_MAX)
                )
        finally:
            committing.cancel()
            await self._consumer.stop()
            await self._producer.stop()

    async def _take(
        self, batches: dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]
    ) -> None:
        for place, records in batches.items():
            mark = self._marks.setdefault(place, Watermark())
            for record in records:
                await self._free.acquire()
                mark.begin(record.offset)
                task = asyncio.create_task(self._answer(place, record))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, place: TopicPartition, record: "ConsumerRecord[bytes, bytes]") -> None:
        try:
            body = json.loads(record.value or b"")
            context = body["context"]
            turns = tuple(Turn("user", m["content"]) for m in context["messages"])
            system = self._template.system + context["instructions"]
            content = await self._ask(replace(self._template, system=system, turns=turns))
            answer = ANSWER.validate_python(json.loads(content or "{}")["answer"])
            result = {"request_id": body["request_id"], "answer": answer.model_dump(mode="json")}
        finally:
            self._free.release()
        key, value = body["workflow_id"].encode(), json.dumps(result).encode()
        sent = await self._producer.send(
            self._options.results, value, key=key, partition=record.partition
        )
        await sent
        self._marks[place].end(record.offset)

    async def _commit(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_EVERY_S)
            moved = {p: mark.take() for p, mark in self._marks.items()}
            offsets = {place: offset for place, offset in moved.items() if offset is not None}
            if offsets:
                await self._consumer.commit(offsets)


def _asking(sdk: str, provider: Provider, api: OpenAIApi) -> Ask:
    in_flight = api.connection.max_in_flight

    def body(prompt: Prompt) -> dict[str, Any]:
        return dict(api.request(prompt).body or {})

    async def adapter(prompt: Prompt) -> str | None:
        reply = await provider.ask(prompt, timeout_s=TIMEOUT_S)
        return reply.content if isinstance(reply, Answered) else None

    async def create(prompt: Prompt) -> str | None:
        reported: ChatCompletion = await client.chat.completions.create(**body(prompt))
        return reported.choices[0].message.content

    async def bare(prompt: Prompt) -> str | None:
        async with session.post("chat/completions", json=body(prompt)) as response:
            fields: dict[str, Any] = json.loads(await response.read())
        content: str | None = fields["choices"][0]["message"]["content"]
        return content

    if sdk == "adapter":
        return adapter
    if sdk == "bare":
        session = aiohttp.ClientSession(
            base_url=api.base_url + "/",
            connector=aiohttp.TCPConnector(limit=in_flight),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        )
        return bare
    http_client = (
        openai.DefaultAsyncHttpxClient if sdk == "as it comes" else openai.DefaultAioHttpClient
    )
    client = openai.AsyncOpenAI(
        api_key="none",
        base_url=api.base_url,
        max_retries=0,
        timeout=TIMEOUT_S,
        http_client=http_client(limits=httpx2.Limits(max_connections=in_flight)),
    )
    return create


async def run(options: argparse.Namespace) -> None:
    """Until SIGTERM."""
    profile = {
        "provider": "openai",
        "model": "stub",
        "base_url": options.base_url,
        "api_key_env": None,
        "show_schema": False,
        "max_in_flight": options.in_flight,
    }
    settings = Settings.model_validate({"profiles": {"default": profile}})
    planner = Planner(backends.build(settings.profiles, SystemClock()), Registry())
    asked = Request.model_validate_json(json.dumps(request_body("template", "template")))
    plan = planner.plan(asked, await planner.prepare(asked))
    provider = planner.backends["default"].provider
    assert isinstance(plan, Plan)
    template = replace(
        plan.prompt(asked, ()),
        system="Answer with data for a program.\n\n",
    )
    api = OpenAIApi(Connection("stub", None, options.in_flight, base_url=options.base_url))
    ask = _asking(options.sdk, provider, api)
    running = asyncio.create_task(Loop(options, template, ask).run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    sys.stderr.write("ready\n")
    await asyncio.wait([running])


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "requests", "results", "group", "base-url"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    parser.add_argument(
        "--sdk", choices=("adapter", "aiohttp", "as it comes", "bare"), default="adapter"
    )
    asyncio.run(run(parser.parse_args()))
