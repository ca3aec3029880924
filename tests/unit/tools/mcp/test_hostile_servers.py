"""The bridge beside MCP servers that misbehave: each call ends, at bounded cost."""

import asyncio
import inspect
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import mcp_types as types
import pytest
from mcp import MCPError

from answerbus.tool_call import ToolCallRecord
from answerbus.tools.call import ToolCall
from answerbus.tools.core.failing import ToolError
from answerbus.tools.core.tool import Tool
from answerbus.tools.toolset import Toolset
from services.settings.settings import SetUpError
from services.tools.mcp import stdio
from services.tools.mcp.bounds import BYTES_PER_S, Pace
from services.tools.mcp.connection import McpConnection, McpToolset
from services.tools.mcp.session import McpSession, ServerPlace, session
from services.worker.ports.costly_work import InPlace
from tests.contracts.tools.channel_in_memory import call_body
from tests.cpu_time import cpu_time
from tests.unit.tools.mcp.hostile_stdio import MIB

pytestmark = pytest.mark.wide  # each starts a server and lets it send all it can

CALL_S = 1.0
CPU_S = 1.2  # of which reading 16 MiB at once is most; 4 MiB a second after that
MEMORY_BYTES = 48 * MIB
MODULE = "tests.unit.tools.mcp.hostile_"


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "END_S", 0.1)


def on_stdio(manner: str) -> ServerPlace:
    return ServerPlace((sys.executable, "-m", f"{MODULE}stdio", manner))


@asynccontextmanager
async def over_http(manner: str) -> AsyncIterator[ServerPlace]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"{MODULE}http", manner, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout
        port = int(await process.stdout.readline())
        yield ServerPlace(url=f"http://127.0.0.1:{port}/mcp")
    finally:
        process.kill()
        await process.wait()


async def call(opened: McpSession) -> types.CallToolResult:
    params = types.CallToolRequestParams(name="act", arguments={})
    request = types.CallToolRequest(params=params)
    sent = opened.client.session.send_request(request, types.CallToolResult)
    return await asyncio.wait_for(sent, CALL_S)


async def failure_of_a_call(place: ServerPlace) -> BaseException | None:
    """How the call of a tool fails, after its cost was found to be bounded."""
    failure: BaseException | None = None
    tracemalloc.start()
    try:
        with cpu_time() as spent:
            try:
                async with session(place) as opened:
                    try:
                        await opened.client.list_tools()
                        tracemalloc.reset_peak()
                        await call(opened)
                    except (MCPError, TimeoutError) as error:
                        failure = error
            except* (OSError, MCPError, Exception) as group:
                failure = group
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_BYTES
    assert spent.is_below(CPU_S * 4)  # tracing takes three times as long as the work
    return failure


@pytest.mark.parametrize(
    "manner",
    [
        *("endless line", "many values", "many faults", "many tools", "ends", "deep"),
        *("notifications", "requests", "no messages"),
    ],
)
async def test_a_server_on_stdio_costs_no_more_than_its_bounds(manner: str) -> None:
    assert await failure_of_a_call(on_stdio(manner)) is not None


@pytest.mark.parametrize(
    "manner",
    [
        *("gzip", "gzip twice", "gzip members", "deflate", "charset", "endless", "endless event"),
        *("many lines", "events", "headers", "redirect", "redirects", "deep", "many faults"),
        "reconnect",
    ],
)
async def test_a_server_over_http_costs_no_more_than_its_bounds(manner: str) -> None:
    async with over_http(manner) as place:
        assert await failure_of_a_call(place) is not None


async def test_what_is_within_the_bounds_passes() -> None:
    assert await failure_of_a_call(on_stdio("stderr")) is None
    async with over_http("large") as place:
        assert await failure_of_a_call(place) is None


async def test_a_connection_that_ends_is_opened_again() -> None:
    connection, toolset = await kept(on_stdio("ends"))
    keeping = asyncio.create_task(connection.keep())
    act = (await asyncio.wait_for(toolset, 10.0)).tools["act"]
    for _ in range(2):
        await connected(connection)
        with pytest.raises(ToolError) as ended:
            await called(act)
        assert (ended.value.code, ended.value.retryable) == ("mcp_error", False)
        assert ended.value.message == "the tool may have run: Connection closed"
    assert not keeping.done()
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(keeping, 10.0)


async def called(act: Tool) -> object:
    loop = asyncio.get_running_loop()
    record = ToolCallRecord.model_validate(call_body("c-1"))
    made = act.call({}, ToolCall(record, 5.0, lambda _: None, loop))
    assert inspect.isawaitable(made)
    return await made


async def kept(place: ServerPlace) -> tuple[McpConnection, "asyncio.Future[Toolset]"]:
    connection = McpConnection(McpToolset("mcp", place, InPlace()), session, wait_s=0.01)
    return connection, connection.toolset


async def connected(connection: McpConnection) -> None:
    async with asyncio.timeout(10.0):
        while connection._client is None:
            await asyncio.sleep(0.01)


async def test_a_server_that_never_starts_is_reported() -> None:
    connection, toolset = await kept(ServerPlace(("/no/such/command",)))
    await asyncio.wait_for(connection.keep(), 10.0)

    with pytest.raises(SetUpError, match="cannot be used"):
        await toolset


async def test_a_reader_waits_for_what_is_beyond_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    pace = Pace(lambda: 0.0)
    for _ in range(10):
        await pace.wait(BYTES_PER_S)

    assert waited[-1] == pytest.approx(6.0, rel=0.01)
