"""Connections that are kept open: one that has bytes before it is asked again is closed instead.

Responses of HTTP/1.1 have no ids. The bytes that come next are read as the answer to the next
request, so that a second response to one request would become the answer to another.
"""

import select
from ssl import SSLContext
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

KEEP_ALIVE_S = 4.0  # common servers hang up after 5 s, and may do so in the middle of a call


class CheckedConnections(aiohttp.TCPConnector):
    """aiohttp's own checks only what came before a connection was put back."""

    def __init__(self, *, limit: int, ssl: SSLContext | bool) -> None:
        super().__init__(limit=limit, keepalive_timeout=KEEP_ALIVE_S, ssl=ssl)
        self._asked: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
    ) -> Connection:
        """A new connection, or one without bytes since its last response."""
        connection = await super().connect(req, traces, timeout)
        while (kept := connection.protocol) is not None and kept in self._asked:
            if not _has_bytes(kept):
                return connection
            connection.close()
            connection = await super().connect(req, traces, timeout)
        if kept is not None:
            self._asked.add(kept)
        return connection


def _has_bytes(protocol: ResponseHandler) -> bool:
    """Whether bytes, or the end, have come: they were read, or still lie in the socket."""
    if protocol.should_close or protocol.transport is None:
        return True
    poll = select.poll()
    poll.register(protocol.transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))
