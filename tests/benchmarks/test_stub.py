"""The stub is what all figures rest on: what it says and writes down must be right."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from infra.ports import LOOPBACK, free_ports
from tests.benchmarks.conservation import repeated
from tests.benchmarks.journal import HUNG_UP, Call, read
from tests.benchmarks.latency import Latency
from tests.benchmarks.stub import Stub, beginning
from tests.benchmarks.upstream import request_body
from tests.integration.bus import until
from tests.integration.certificates import Authority


class Around:
    """A stub in this process, and somebody who calls it."""

    def __init__(
        self, stub: Stub, port: int, tls_port: int, journal: Path, caller: aiohttp.ClientSession
    ) -> None:
        self.stub, self.journal, self.caller = stub, journal, caller
        self.url = f"http://{LOOPBACK}:{port}/v1/chat/completions"
        self.tls_url = f"https://{LOOPBACK}:{tls_port}/v1/chat/completions"

    async def begin(self, latency: Latency) -> None:
        await self.stub.carry_out(beginning(self.journal, latency, seed=1))

    async def call(self, request_id: str, url: str = "") -> tuple[int, str | None]:
        body = {"messages": [request_body(request_id, "w")["context"]]}
        async with self.caller.post(url or self.url, json=body) as response:
            await response.read()
            return response.status, response.headers.get("Retry-After")

    async def calls(self) -> list[Call]:
        await self.stub.carry_out({"do": "flush"})
        return read(self.journal)


@pytest.fixture
async def around(tmp_path: Path) -> AsyncIterator[Around]:
    port, tls_port = free_ports(2)
    authority = Authority(tmp_path, "trusted")
    trusted = ssl.create_default_context(cafile=authority.file)
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(authority.signs("stub").both)
    stub = Stub(port, (tls_port, served))
    await stub.listen()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as caller:
        yield Around(stub, port, tls_port, tmp_path / "calls.tsv", caller)
    stub.close()
    await asyncio.sleep(0)


async def test_a_call_takes_its_latency_and_is_written_down(around: Around) -> None:
    await around.begin(Latency("constant", 0.2))

    answers = await asyncio.gather(*(around.call(f"r-{n}") for n in range(5)))

    calls = await around.calls()
    assert answers == [(200, None)] * 5
    assert sorted((call.request_id, call.status) for call in calls) == [
        (f"r-{n}", 200) for n in range(5)
    ]
    assert all(0.19 < call.span.length_s < 1.0 for call in calls)
    assert repeated([*calls, calls[0]]) == 1


async def test_calls_over_tls_are_answered_and_written_down_alike(around: Around) -> None:
    await around.begin(Latency("instant"))

    answers = [await around.call("r-1"), await around.call("r-2", around.tls_url)]

    assert answers == [(200, None)] * 2
    assert {call.request_id for call in await around.calls()} == {"r-1", "r-2"}


async def test_what_it_answers_is_what_the_contract_asks_for(around: Around) -> None:
    await around.begin(Latency("instant"))
    body = {"messages": [request_body("r-1", "w")["context"]]}

    async with around.caller.post(around.url, json=body) as response:
        reply = await response.json()

    answer = json.loads(reply["choices"][0]["message"]["content"])["answer"]
    assert (answer["kind"], reply["choices"][0]["finish_reason"]) == ("dep_bump", "stop")


async def test_throttled_callers_get_the_time_of_the_next_try(around: Around) -> None:
    await around.begin(Latency("instant"))

    await around.stub.carry_out({"do": "throttle", "for_s": 0.2, "retry_after_s": 10})
    while_throttled = await around.call("r-1")
    await until(lambda: around.stub.refusal is None, "the end of it")
    after = await around.call("r-1")

    calls = await around.calls()
    assert (while_throttled, after) == ((429, "10"), (200, None))
    assert [(call.status, call.is_refused) for call in calls] == [(429, True), (200, False)]
    assert repeated(calls) == 0


async def test_who_is_away_finishes_its_calls_and_takes_no_new_connections(around: Around) -> None:
    await around.begin(Latency("constant", 0.3))
    under_way = asyncio.create_task(around.call("r-1"))
    await until(lambda: around.stub.in_flight == 1, "the call is under way")

    await around.stub.carry_out({"do": "away", "for_s": 0.6, "retry_after_s": 1})
    with pytest.raises(aiohttp.ClientConnectorError):
        await around.call("r-2")
    finished = await under_way
    refused = await around.call("r-3")
    await until(lambda: around.stub.refusal is None, "it is back")
    back = await around.call("r-2")

    assert (finished, refused, back) == ((200, None), (503, "1"), (200, None))


async def test_a_caller_that_hangs_up_is_noticed(around: Around) -> None:
    await around.begin(Latency("constant", 30.0))
    calling = asyncio.create_task(around.call("r-1"))
    await until(lambda: around.stub.in_flight == 1, "the call is under way")

    calling.cancel()
    await until(lambda: around.stub.in_flight == 0, "it has noticed")

    assert [(call.request_id, call.status) for call in await around.calls()] == [("r-1", HUNG_UP)]
