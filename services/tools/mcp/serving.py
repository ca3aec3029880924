"""Serves the tools of an MCP server until its offer changes."""

import asyncio
from contextlib import suppress

from answerbus.client.bus import Bus
from answerbus.tools.server import ServerStuckError, ToolServer
from answerbus.tools.serving import serve_on
from services.settings.settings import SetUpError
from services.tools.mcp.connection import McpConnection, McpToolset
from services.tools.mcp.session import session


async def serve_mcp(
    bus: Bus,
    served: McpToolset,
    *,
    concurrency: int,
    drain_s: float,
    session_ms: int,
) -> None:
    """Until SIGTERM or Ctrl-C. Raises BusUnavailable, and SetUpError where the server fails."""
    connection = McpConnection(served, session)
    keeping = asyncio.create_task(connection.keep())

    def stop_with(server: ToolServer) -> None:
        keeping.add_done_callback(lambda _: server.stop())

    try:
        toolset = await connection.toolset
        if reason := served.refused(toolset):
            raise SetUpError(reason)
        await serve_on(
            bus,
            toolset,
            concurrency=concurrency,
            drain_s=drain_s,
            session_ms=session_ms,
            on_ready=stop_with,
        )
    except ServerStuckError as error:
        raise SetUpError(f"The tool server ends: {error}; start it again.") from error
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
    if connection.fault:
        raise SetUpError(
            f"The MCP server of {served.name} is not served any more: {connection.fault}."
        )
