"""A bounded session with an MCP server, by the official SDK."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from services.tools.mcp.bounds import MESSAGE_BYTES_MAX, Pace
from services.tools.mcp.http import bounded_client
from services.tools.mcp.screening import ScreenedTransport
from services.tools.mcp.stdio import stdio_transport
from services.tools.mcp.under_way import CallsUnderWay

CONNECT_S = 60.0  # for a server to answer `initialize`
CLOSE_S = 10.0
_SECRET_PARTS = re.compile(r"(?<=//)[^/?#]*@|[?#].*", re.DOTALL)  # user, password, query


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """A command that starts an MCP server, with its environment, or the address of one."""

    command: tuple[str, ...] = ()
    url: str | None = None
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    bearer: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """For people; an address without its parts that may hold a key."""
        return _SECRET_PARTS.sub("", self.url) if self.url else " ".join(self.command)

    @property
    def secrets(self) -> tuple[str | None, ...]:
        """The token, and what is left out of the address: its server may quote both in errors."""
        parts = _SECRET_PARTS.findall(self.url or "")
        return (self.bearer, *(part.strip("@?#") for part in parts))


@dataclass(frozen=True, slots=True)
class McpSession:
    """`ended` is set once the server can send nothing more."""

    client: Client
    ended: asyncio.Event
    calls: CallsUnderWay


@asynccontextmanager
async def session(place: ServerPlace) -> AsyncIterator[McpSession]:
    """Raises OSError, TimeoutError, MCPError and whatever else the SDK raises."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        limit = await stack.enter_async_context(asyncio.timeout(CONNECT_S))
        found = await _entered(stack, place)
        limit.reschedule(None)
        try:
            yield found
        finally:
            limit.reschedule(loop.time() + CLOSE_S)


async def _entered(stack: AsyncExitStack, place: ServerPlace) -> McpSession:
    pace, http = Pace(asyncio.get_running_loop().time), None
    if place.url is None:
        inner = stdio_transport(place.command, dict(place.environment), pace)
    else:
        http = await stack.enter_async_context(bounded_client(place.bearer, pace))
        inner = streamable_http_client(
            place.url, http_client=http, max_sse_event_size=MESSAGE_BYTES_MAX
        )
    transport = ScreenedTransport(inner, lambda: http is not None and http.has_no_session)
    # Without a cache: a change of what is offered must be seen.
    client = await stack.enter_async_context(Client(transport, cache=None))
    if http:
        http.is_connected = True
    return McpSession(client, transport.ended, transport.calls)
