"""A server that knows its callers by their keys, and echoes them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class KeyedServer:
    """Speaks enough of OpenAI's API, to those whose key is valid; echoes keys as bad servers do."""

    valid: set[str]
    seen: list[str] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    address: str = ""
    refuses_with: int = 401
    code: str | None = None

    def __post_init__(self) -> None:
        self.held.set()

    async def answer(self, request: web.Request) -> web.Response:
        key = request.headers["authorization"].removeprefix("Bearer ")
        self.seen.append(key)
        if key not in self.valid:
            error = {"message": f"no such key {key}", "code": self.code}
            return web.json_response({"error": error}, status=self.refuses_with)
        if request.method == "GET":
            return web.json_response({"object": "list", "data": [{"id": "m"}]})
        await self.held.wait()
        choice = {"message": {"role": "assistant", "content": key}, "finish_reason": "stop"}
        return web.json_response(
            {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]}
        )


@asynccontextmanager
async def keyed_server(*valid: str) -> AsyncIterator[KeyedServer]:
    found = KeyedServer({*valid})
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.address = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield found
    await runner.cleanup()
