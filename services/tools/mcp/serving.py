"""Serves the tools of an MCP server until its offer changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from mcp import Client

from answerbus.client.bus import Bus
from answerbus.limits import TOOL_TIMEOUT_S_DEFAULT
from answerbus.tools.server import ServerStuckError, ToolServer
from answerbus.tools.serving import serve_on
from answerbus.tools.toolset import Toolset
from answerbus.toolset_card import ApprovalRule
from services.settings import SetUpError
from services.tools.mcp.bridge import CONNECT_S, ServerPlace, connected, toolset_of

LOOK_AGAIN_S = 30.0  # for tools that changed, and a server that is gone


@dataclass(frozen=True, slots=True)
class McpToolset:
    """What of an MCP server is served, under which name; `pin`: these very tools alone."""

    name: str
    place: ServerPlace
    approval: ApprovalRule = "never"
    timeout_s: float = TOOL_TIMEOUT_S_DEFAULT
    pin: str | None = None

    async def read(self, client: Client) -> Toolset:
        """What the server offers now."""
        return await toolset_of(client, self.name, approval=self.approval, timeout_s=self.timeout_s)


async def serve_mcp(
    bus: Bus,
    served: McpToolset,
    *,
    concurrency: int,
    drain_s: float,
    session_ms: int,
    look_again_s: float = LOOK_AGAIN_S,
) -> None:
    """Until SIGTERM or Ctrl-C. Raises BusUnavailable, and SetUpError where the server fails."""
    async with _session(served.place) as client:
        toolset = await _first(served, client)
        digest = toolset.card().computed_digest()
        if reason := _refused(served, toolset, digest):
            raise SetUpError(reason)
        watch = _Watch(served, client, digest, look_again_s)
        try:
            await serve_on(
                bus,
                toolset,
                concurrency=concurrency,
                drain_s=drain_s,
                session_ms=session_ms,
                on_ready=watch.begin,
            )
        except ServerStuckError as error:
            raise SetUpError(f"The tool server ends: {error}; start it again.") from error
        finally:
            watch.end()
    if watch.fault:
        raise SetUpError(f"The MCP server of {served.name} is not served any more: {watch.fault}.")


async def _first(served: McpToolset, client: Client) -> Toolset:
    try:
        return await served.read(client)
    except Exception as error:
        raise SetUpError(
            f"The MCP server of {served.name} does not list its tools: {_words(error)}."
        ) from error


def _refused(served: McpToolset, toolset: Toolset, digest: str) -> str | None:
    if not toolset.tools:
        return f"The MCP server of {served.name} offers no tool that can be served."
    if served.pin in (None, digest):
        return None
    return (
        f"The MCP server of {served.name} offers other tools than those that were pinned: their "
        f"digest is {digest}. Look at them with `answerbus tools list`, then pin this one."
    )


class _Watch:
    """Ends a server whose tools change under their names: nothing of that is run unseen."""

    def __init__(
        self, served: McpToolset, client: Client, digest: str, look_again_s: float
    ) -> None:
        self._served, self._client = served, client
        self._digest, self._look_again_s = digest, look_again_s
        self._task: asyncio.Task[None] | None = None
        self.fault: str | None = None

    def begin(self, server: ToolServer) -> None:
        self._task = asyncio.create_task(self._look(server))

    def end(self) -> None:
        if self._task:
            self._task.cancel()

    async def _look(self, server: ToolServer) -> None:
        while self.fault is None:
            await asyncio.sleep(self._look_again_s)
            self.fault = await self._found()
        server.stop()

    async def _found(self) -> str | None:
        try:
            again = await self._served.read(self._client)
        except Exception as error:  # also of the SDK, at what is no list of tools
            return f"it does not list its tools ({type(error).__name__})"
        changed = again.card().computed_digest() != self._digest
        return "its tools changed; start it again to serve what it offers now" if changed else None


@asynccontextmanager
async def _session(place: ServerPlace) -> AsyncIterator[Client]:
    shown = place.url or " ".join(place.command)
    stack = AsyncExitStack()
    try:
        async with asyncio.timeout(CONNECT_S):
            client = await stack.enter_async_context(connected(place))
    except (Exception, BaseExceptionGroup) as error:
        raise SetUpError(f"The MCP server {shown} cannot be used: {_words(error)}.") from error
    try:
        yield client
    finally:
        # Its own process may be gone already; that it cannot be closed well is no news then.
        with suppress(Exception, BaseExceptionGroup):
            await stack.aclose()


def _words(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
