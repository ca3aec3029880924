"""HTTP to an MCP server: nothing is unpacked, and each message is bounded as it comes in."""

import asyncio
import json
import logging
import re
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

from services.tools.mcp.bounds import (
    MESSAGE_BYTES_MAX,
    VALUES_MAX,
    Pace,
    values_in,
)

SILENT_S_MAX = 300.0  # of a response that has begun
RECONNECT_COST_BYTES = 2 * 1024 * 1024  # that a stream counts which is asked for again
STEP_S_MAX = 30.0  # to connect, and to send a request
NOTICE_S_MAX = 1.0  # for what has no answer: the SDK sends nothing else meanwhile
_SESSION = "mcp-session-id"
_KEPT_HEADERS = (_SESSION, "location")
_NOT_FOUND = 404
_UNAUTHORIZED = (401, 403)
_GATEWAY_FAULT = 500  # and above, where no error of MCP is in it
_EVENT_STREAM, _JSON = "text/event-stream", "application/json"
# The request has been sent, or a part of it: what became of it is not known.
_BROKE_OFF = (
    *(httpx2.ReadError, httpx2.WriteError, httpx2.CloseError, httpx2.ProtocolError),
    *(httpx2.ReadTimeout, httpx2.WriteTimeout),
)
_NO_CONNECTION = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)
# `data` of an error: the server has not seen the request. By chance, so that no server can say it.
NOT_SENT = f"answerbus/not_sent/{secrets.token_hex()}"
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")

_REFUSED = "the MCP server answers with status %d: --bearer-env gives it another token"

_log = logging.getLogger(__name__)


class Unbounded(httpx2.SSEError, httpx2.StreamError):
    """Too large, packed or broken off; by both names the SDK ends one call, and no other."""

    def __init__(self, message: str) -> None:
        httpx2.SSEError.__init__(self, message)


class McpHttpClient(httpx2.AsyncClient):
    """Once `is_connected`, an exchange that breaks off ends one call; the SDK would end all.

    `has_no_session`: the server does not know the session any more, as after it has started again.
    """

    is_connected = has_no_session = False

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """As the base does; an exchange that breaks off is an answer with an error."""
        if not self.is_connected:
            return await super().send(request, **options)
        try:
            async with asyncio.timeout(None if _has_answer(request) else NOTICE_S_MAX):
                response = await super().send(request, **options)
        except _NO_CONNECTION as error:
            why = f"{type(error).__name__}: {error}"
            return _unanswered(request, why, INTERNAL_ERROR, NOT_SENT)
        except (*_BROKE_OFF, TimeoutError) as error:
            return _unanswered(request, f"{type(error).__name__}: {error}")
        if response.status_code == _NOT_FOUND and _SESSION in request.headers:
            self.has_no_session = True
        if response.status_code < _GATEWAY_FAULT or response.headers["content-type"] == _JSON:
            return response
        await response.aclose()
        return _unanswered(request, f"the MCP server answers with status {response.status_code}")


def _has_answer(request: httpx2.Request) -> bool:
    """Whether it is not a notification, nor an answer of ours."""
    return request.method != "POST" or json.loads(request.content).keys() >= {"method", "id"}


def _unanswered(
    request: httpx2.Request, why: str, code: int = CONNECTION_CLOSED, data: str | None = None
) -> httpx2.Response:
    error = {"code": code, "message": why, "data": data}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(502, json=body, request=request)


def bounded_client(bearer: str | None, pace: Pace) -> McpHttpClient:
    async def before(request: httpx2.Request) -> None:
        if request.method == "GET" and "last-event-id" not in request.headers:
            raise httpx2.RequestError("the bridge uses nothing that a server sends unasked")
        await pace.wait(RECONNECT_COST_BYTES if request.method == "GET" else 0)

    async def bound(response: httpx2.Response) -> None:
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise Unbounded("the response is not a stream")
        if response.status_code in _UNAUTHORIZED:  # which the SDK's error does not say
            _log.warning(_REFUSED, response.status_code)
        found = response.headers
        is_packed = found.get("content-encoding", "identity").strip().lower() != "identity"
        # Without its charset: `charset=zlib` would unpack the text.
        kind = found.get("content-type", "").partition(";")[0].strip().lower()
        kept = {name: found[name] for name in _KEPT_HEADERS if name in found}
        response.headers = httpx2.Headers({**kept, "content-type": kind})
        response.stream = _BoundedStream(
            response.stream, pace, is_packed=is_packed, is_events=kind == _EVENT_STREAM
        )

    headers = {"Accept-Encoding": "identity"}
    return McpHttpClient(
        limits=httpx2.Limits(max_connections=None),  # as many as calls may run
        headers=headers | ({"Authorization": f"Bearer {bearer}"} if bearer else {}),
        timeout=httpx2.Timeout(STEP_S_MAX, read=SILENT_S_MAX),
        event_hooks={"request": [before], "response": [bound]},
    )


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(
        self, stream: httpx2.AsyncByteStream, pace: Pace, *, is_packed: bool, is_events: bool
    ) -> None:
        self._stream, self._pace = stream, pace
        self._is_packed, self._is_events = is_packed, is_events
        self._bytes = self._values = 0  # of the message that comes in
        self._line_ends = b""  # at the end of what has come: the next chunk may end the event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_packed:
            raise Unbounded("the MCP server packs its answer, which was not asked for")
        chunks = self._stream if self._is_events else _whole(self._stream)
        async for chunk in chunks:
            pieces = self._split(chunk) if self._is_events else [chunk]
            self._add(pieces[0])
            for piece in pieces[1:]:
                self._bytes = self._values = 0
                self._add(piece)
            await self._pace.wait(len(chunk), values_in(chunk), len(pieces))
            yield chunk

    def _split(self, chunk: bytes) -> list[bytes]:
        self._bytes -= len(self._line_ends)  # which are counted again
        pieces = _EVENT_END.split(self._line_ends + chunk)
        self._line_ends = pieces[-1][len(pieces[-1].rstrip(b"\r\n")) :]
        return pieces

    def _add(self, piece: bytes) -> None:
        self._bytes += len(piece)
        self._values += values_in(piece)
        if self._bytes > MESSAGE_BYTES_MAX:
            raise Unbounded(f"the MCP server sends more than {MESSAGE_BYTES_MAX:,} bytes at once")
        if self._values > VALUES_MAX:
            raise Unbounded(f"the MCP server sends more than {VALUES_MAX:,} values at once")

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _whole(stream: httpx2.AsyncByteStream) -> AsyncIterator[bytes]:
    """All of a stream; one of events may be resumed where it breaks off, as the SDK does."""
    try:
        async for chunk in stream:
            yield chunk
    except _BROKE_OFF as error:
        raise Unbounded(f"{type(error).__name__}: {error}") from None
