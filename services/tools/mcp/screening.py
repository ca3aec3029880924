"""Lets through only the messages of an MCP server that the bridge uses, and says what it can do."""

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from anyio import EndOfStream
from mcp.client import Transport
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types.methods import parse_server_result
from mcp_types.version import LATEST_PROTOCOL_VERSION
from pydantic import ValidationError

from answerbus.client.turns import in_turns
from services.tools.mcp.bounds import LISTED_MAX, is_costly
from services.tools.mcp.tasks import EXTENSION
from services.tools.mcp.under_way import CallsUnderWay

Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]

CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}}

_log = logging.getLogger(__name__)

_LIST = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}  # of a valid page


class ScreenedTransport:
    """Responses, pings and progress pass; requests are refused, other notifications dropped.

    An invalid tool is taken out of a list of tools, which the SDK would refuse as a whole.
    Of the version of 2026-07-28, each request says that forms and tasks can be answered with. The
    SDK would say so to older servers, too, whose questions cannot outlive a connection.
    `ended` is set when the server can send nothing more, or `is_over` and each answer has passed.
    """

    def __init__(self, transport: Transport, is_over: Callable[[], bool] = lambda: False) -> None:
        self._transport, self._is_over = transport, is_over
        self.ended = asyncio.Event()
        self.calls = CallsUnderWay(asyncio.get_running_loop().time)

    async def __aenter__(self) -> Streams:
        reads, writes = await self._transport.__aenter__()
        screened = _Screened(reads, writes, self.ended, self.calls, self._is_over)
        return screened, _Declaring(writes, self.calls)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._transport.__aexit__(kind, error, trace)


class _Screened:
    def __init__(
        self,
        reads: ReadStream[SessionMessage | Exception],
        writes: WriteStream[SessionMessage],
        ended: asyncio.Event,
        calls: CallsUnderWay,
        is_over: Callable[[], bool],
    ) -> None:
        self._reads, self._writes, self._ended, self._calls = reads, writes, ended, calls
        self._is_over, self._version = is_over, LATEST_PROTOCOL_VERSION

    @property
    def last_context(self) -> object:
        """The sender's, which the SDK asks for."""
        return getattr(self._reads, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message that passes."""
        while True:
            if self._is_over():
                self._ended.set()
            try:
                found = await self._reads.receive()
            except Exception:
                self._ended.set()
                raise
            if isinstance(found, SessionMessage):
                self._calls.received(found.message)
                if passed := await self._passed(found):
                    return passed

    async def _passed(self, received: SessionMessage) -> SessionMessage | None:
        message = received.message
        costly = is_costly(message)
        match message:
            case types.JSONRPCResponse(id=asked) if costly:
                error = types.ErrorData(code=types.PARSE_ERROR, message="the answer is too large")
                return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=asked, error=error))
            case types.JSONRPCResponse(result=result):
                result.setdefault("resultType", "complete")  # as MCP says; the SDK requires it
                self._version = result.get("protocolVersion", self._version)  # of `initialize`
                if isinstance(tools := result.get("tools"), list):
                    some = in_turns(tools[:LISTED_MAX])  # each invalid one takes 20 µs, and a line
                    result["tools"] = [one async for one in some if _is_valid(one, self._version)]
                return received
            case types.JSONRPCError():
                return received
            case types.JSONRPCRequest(method="ping") if not costly:
                return received
            case types.JSONRPCRequest(id=asked, method=method):
                _log.debug("the MCP server's request %.100r is refused", method)
                error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="not supported")
                refusal = types.JSONRPCError(jsonrpc="2.0", id=asked, error=error)
                await self._writes.send(SessionMessage(refusal))
                return None
            case types.JSONRPCNotification(method="notifications/progress") if not costly:
                return received
            case _:
                return None

    async def aclose(self) -> None:
        await self._reads.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        await self._reads.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._reads.__aexit__(kind, error, trace)


def _is_valid(tool: Any, version: str) -> bool:
    try:
        parse_server_result("tools/list", version, {**_LIST, "tools": [tool]})
    except ValidationError as error:
        name = tool.get("name") if isinstance(tool, dict) else None
        place = ".".join(map(str, error.errors(include_url=False)[0]["loc"][2:]))
        named = name if isinstance(name, str) else "without a name"
        _log.warning("the tool %.100r is left out: it is invalid at %.100r", named, place)
        return False
    except (KeyError, ValueError, TypeError):
        return True  # of a version that the SDK does not know; it judges the whole list
    return True


class _Declaring:
    def __init__(self, writes: WriteStream[SessionMessage], calls: CallsUnderWay) -> None:
        self._writes, self._calls = writes, calls

    async def send(self, message: SessionMessage, /) -> None:
        """With what the bridge can do, where a request says that at all."""
        sent = message.message
        meta = (sent.params or {}).get("_meta") if isinstance(sent, types.JSONRPCRequest) else None
        if isinstance(meta, dict) and types.CLIENT_CAPABILITIES_META_KEY in meta:
            meta[types.CLIENT_CAPABILITIES_META_KEY] = CAPABILITIES
        self._calls.sent(sent)
        await self._writes.send(message)

    async def aclose(self) -> None:
        await self._writes.aclose()

    async def __aenter__(self) -> Self:
        await self._writes.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._writes.__aexit__(kind, error, trace)
