"""Settings and keys that change under load: a running worker takes them, and no request fails."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from tests.integration.bus import Bus, Worker, request, until

pytestmark = pytest.mark.kafka

FIRST, SECOND = "sk-first-0123456789", "sk-second-987654321"
AT_ONCE, MANY = 4, 60  # calls, and requests in each step
LIMIT_S = 60.0


@dataclass
class ModelServer:
    """Speaks enough of OpenAI's API, to those whose key is valid; answers when it is let."""

    valid: set[str]
    calls: list[str] = field(default_factory=list)  # the keys of those that were answered
    waiting: int = 0
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    address: str = ""

    async def answer(self, asked: web.Request) -> web.Response:
        key = asked.headers["authorization"].removeprefix("Bearer ")
        if key not in self.valid:
            return web.json_response({"error": {"message": "no such key"}}, status=401)
        if asked.method == "GET":
            return web.json_response({"object": "list", "data": [{"id": "m"}]})
        self.waiting += 1
        await self.answers.wait()
        self.waiting -= 1
        self.calls.append(key)
        choice = {"message": {"role": "assistant", "content": "Two."}, "finish_reason": "stop"}
        return web.json_response(
            {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]}
        )


@asynccontextmanager
async def model_server(*keys: str) -> AsyncIterator[ModelServer]:
    found = ModelServer({*keys})
    found.answers.set()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.address = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield found
    finally:
        await runner.cleanup()


def profile(server: ModelServer, key_file: Path, most: int = AT_ONCE, name: str = "default") -> str:
    return (
        f'[profiles.{name}]\nprovider = "openai"\nmodel = "m"\nbase_url = "{server.address}"\n'
        f'api_key_file = "{key_file}"\nmax_in_flight = {most}\n'
    )


async def publish(bus: Bus, step: str) -> None:
    asked = [request(f"{step}-{n}", f"order-{n}") for n in range(MANY)]
    await bus.publish([{**one, "answer_schema": {"kind": "text"}} for one in asked])


async def test_settings_and_keys_that_change_under_load_end_no_request(
    bus: Bus, tmp_path: Path
) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(FIRST)
    async with model_server(FIRST) as first, model_server(SECOND) as second:
        config = bus.settings(profile(first, key_file))
        worker = await asyncio.to_thread(bus.start_worker, config)

        async def settings() -> dict[str, str | None]:
            health = await asyncio.to_thread(lambda: worker.health)
            found: dict[str, str | None] = health["settings"]
            return found

        # Keys first: the server forgets the one while calls are under way with it.
        first.answers.clear()
        await publish(bus, "key")
        await until(lambda: first.waiting == AT_ONCE, "calls are under way", LIMIT_S)
        key_file.with_suffix(".new").write_text(SECOND)
        key_file.with_suffix(".new").replace(key_file)
        first.valid = {SECOND}
        first.answers.set()
        await until(lambda: len(first.calls) == MANY, "all are answered", LIMIT_S)
        assert first.calls.count(SECOND) >= MANY - 2 * AT_ONCE

        before = await settings()
        assert before["refused"] is None
        first.answers.clear()
        await publish(bus, "file")
        await until(lambda: first.waiting == AT_ONCE, "calls are under way", LIMIT_S)

        config.write_text(config.read_text() + "[worker\n")
        why = await refusal(worker)
        assert "unreadable" in why
        bus.settings(profile(second, key_file) + profile(second, tmp_path / "gone", name="keyless"))
        worker.process.send_signal(signal.SIGHUP)
        why = await refusal(worker, other_than=why)
        assert "Profile `keyless`: " in why
        assert (await settings())["digest"] == before["digest"]
        assert b"answerbus_settings_refused 1" in await asyncio.to_thread(worker.get, "/metrics")
        assert (first.waiting, second.calls) == (AT_ONCE, [])

        bus.settings(profile(second, key_file, 2 * AT_ONCE))
        second.answers.clear()
        worker.process.send_signal(signal.SIGHUP)
        limit = 2 * AT_ONCE - AT_ONCE  # calls that began before count
        await until(lambda: second.waiting == limit, "the new provider is asked", LIMIT_S)
        after = await settings()
        assert after["refused"] is None
        assert after["digest"] != before["digest"]
        first.answers.set()
        second.answers.set()
        found = await bus.terminals(2 * MANY, LIMIT_S)

        assert {one["kind"] for one in found} == {"result"}
        assert len(found) == 2 * MANY
        assert len(first.calls) == MANY + AT_ONCE  # none was made twice
        assert len(second.calls) == MANY - AT_ONCE
        assert await asyncio.to_thread(worker.terminate) == 0
    texts = [line["message"] for line in worker.log() if "settings" in line["message"]]
    assert sum("settings file rejected" in message for message in texts) == 2
    assert sum("settings reloaded" in message for message in texts) == 1
    assert FIRST not in worker.log_file.read_text()


async def refusal(worker: Worker, other_than: str | None = None) -> str:
    """Why the settings file is not taken, once that is known."""
    found: list[str] = []

    def is_refused() -> bool:
        found[:] = [json.loads(worker.get("/ready"))["settings"]["refused"] or ""]
        return found[0] not in ("", other_than)

    async with asyncio.timeout(LIMIT_S):
        while not await asyncio.to_thread(is_refused):
            await asyncio.sleep(0.05)
    return found[0]
