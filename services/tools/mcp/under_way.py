"""Which calls an MCP server works on, and when it was last heard of."""

from collections.abc import Callable

from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)


class CallsUnderWay:
    """Calls that were sent and are neither answered nor given up, by their messages."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._heard_s = clock, clock()
        self._ids = set[RequestId]()

    def sent(self, message: JSONRPCMessage) -> None:
        match message:
            case JSONRPCRequest(method="tools/call", id=asked):
                self._ids.add(asked)
            case JSONRPCNotification(method="notifications/cancelled", params=params):
                self._ids.discard((params or {}).get("requestId", ""))
            case _:
                pass

    def received(self, message: JSONRPCMessage) -> None:
        self._heard_s = self._clock()
        match message:
            case JSONRPCResponse(id=asked) | JSONRPCError(id=int() | str() as asked):
                self._ids.discard(asked)
            case _:
                pass

    def keep_busy(self, silent_s: float) -> bool:
        """Whether there are any, of a server that was silent for less than so many seconds.

        One that hangs is given new calls again and again: that there are some says little of it.
        """
        return bool(self._ids) and self._clock() - self._heard_s < silent_s
