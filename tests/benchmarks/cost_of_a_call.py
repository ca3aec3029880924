"""The CPU time that a call takes in each adapter: `python -m tests.benchmarks.cost_of_a_call`."""

import asyncio
import multiprocessing
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from services.worker.core.attempt.turn import Turn
from tests.providers.apis import APIS
from tests.providers.calls import PROMPT, SCHEMA, Api
from tests.providers.misbehaving import misbehaving

CALLS = 1_000
AT_ONCE = 100
NAMES = [f"member_{number}" for number in range(20)]
WIDE: dict[str, Any] = {"properties": {name: {"type": "string"} for name in NAMES}}
LONG = replace(
    PROMPT,
    turns=(Turn("user", "q" * 2_000),),
    wire=replace(PROMPT.wire, schema=SCHEMA | WIDE | {"required": NAMES}),
)


def serve(name: str, connection: Connection) -> None:
    """Answer at once, in a process of its own, until anything comes."""
    asyncio.run(_serve(next(api for api in APIS if api.name == name), connection))


async def _serve(api: Api, connection: Connection) -> None:
    async with misbehaving(api.whole) as server:
        connection.send(server.base_url)
        await asyncio.to_thread(connection.recv)


async def cost_ms(api: Api, url: str) -> float:
    """CPU milliseconds per call of this process, after some calls to warm up."""
    slots = asyncio.Semaphore(AT_ONCE)
    async with api.at(url, max_in_flight=AT_ONCE) as provider:

        async def call() -> None:
            async with slots:
                assert await provider.ask(LONG, timeout_s=60.0) == api.good_reply

        await asyncio.gather(*(call() for _ in range(AT_ONCE)))
        began = time.process_time()
        await asyncio.gather(*(call() for _ in range(CALLS)))
        return (time.process_time() - began) / CALLS * 1_000


def main() -> None:
    """One line per adapter."""
    context = multiprocessing.get_context("spawn")
    for api in APIS:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(api.name, theirs))
        process.start()
        cost = asyncio.run(cost_ms(api, ours.recv()))
        sys.stdout.write(f"{api.name:17} {cost:.2f} ms\n")
        ours.send(None)
        process.join()


if __name__ == "__main__":
    main()
