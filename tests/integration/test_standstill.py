"""A worker that stood still in the middle of its calls reads the answers that came meanwhile."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from answerbus.topics import ATTEMPTS
from tests.integration.bus import ANSWERED, Bus, request, until
from tests.providers.apis import APIS

pytestmark = pytest.mark.kafka

TIMEOUT_S = 10.0  # more than passes between the first call and the last, on a slow machine
SCRIPTED_S = 8.0
STANDS_STILL_S = TIMEOUT_S + 1.0  # so the time of each call is over
KEY_VARIABLE = "KEY_OF_THE_SLOW_PROVIDER"


@dataclass
class SlowProvider:
    """Every API at one address; what was asked is kept by path."""

    url: str
    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def slow_provider() -> AsyncIterator[SlowProvider]:
    """Answers each call as soon as it may, whether or not the worker reads it."""
    apis = {api.path: api for api in APIS}

    async def call(asked: web.Request) -> web.Response:
        if asked.path not in apis:
            return web.json_response({"capabilities": ["completion"]})  # Ollama's show
        seen.asked[asked.path] += 1
        await seen.may_answer.wait()
        seen.answered[asked.path] += 1
        return web.json_response(apis[asked.path].good)

    async def look_up(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}], "version": "0.17.2"})

    application = web.Application()
    application.add_routes([web.get("/{rest:.*}", look_up), web.post("/{rest:.*}", call)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        seen = SlowProvider(f"http://{host}:{port}")
        yield seen
    finally:
        await runner.cleanup()


def config(bus: Bus, url: str) -> Path:
    """A profile for each API, and one whose provider is in the worker itself."""
    tables = []
    for api in APIS:
        provider, _, kind = api.name.partition("-")
        lines = {
            "provider": provider,
            "model": "m",
            "base_url": url + "/v1" * (provider == "openai"),
            "api_key_env": KEY_VARIABLE,
            **({"api": kind} if kind else {}),
        }
        message = "".join(f'{name} = "{text}"\n' for name, text in lines.items())
        tables.append(f"[profiles.{api.name}]\n{message}timeout_s = {TIMEOUT_S}\n")
    rules = [{"reply": ANSWERED, "latency_s": SCRIPTED_S}]
    default = bus.config(rules).read_text() + f"timeout_s = {TIMEOUT_S}\n"
    path = bus.folder / "slow.toml"
    path.write_text(default + "".join(tables))
    return path


async def test_a_stopped_worker_pays_for_no_answer_twice(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "key-of-a-slow-provider")
    names = [api.name for api in APIS]
    async with slow_provider() as provider:
        worker = await asyncio.to_thread(bus.start_worker, config(bus, provider.url))
        text = {"kind": "text"}
        await bus.publish(
            [request(f"r-{n}", f"w-{n}", profile=n, answer_schema=text) for n in names]
            + [request("r-scripted", "w-scripted")]
        )
        await until(
            lambda: provider.asked.total() == len(APIS) and len(bus.calls()) == 1,
            "all are called",
        )
        os.kill(worker.process.pid, signal.SIGSTOP)
        provider.may_answer.set()
        await asyncio.sleep(STANDS_STILL_S)
        assert provider.answered.total() == len(APIS)
        os.kill(worker.process.pid, signal.SIGCONT)
        terminals = await bus.terminals(len(APIS) + 1)

        assert {t["kind"] for t in terminals} == {"result"}
        assert await asyncio.to_thread(worker.terminate) == 0
        assert provider.asked == Counter(api.path for api in APIS)
        assert len(bus.calls()) == 1
    assert {a["outcome"] for a in await bus.everything(ATTEMPTS)} == {"result"}
