"""Bounds for what an MCP server may send, judged before it is parsed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

MESSAGE_BYTES_MAX = 4 * 1024 * 1024
VALUES_MAX = 50_000  # of one message; a result that fits the bus has at most 18,000
TYPED_VALUES_MAX = 10_000  # of one message, where the SDK reports each fault that it finds
LISTED_MAX = 1_000  # tools of a server; the bus takes fewer
LISTED_BYTES_MAX = 8 * 1024 * 1024  # of these, as JSON; a card on the bus is smaller
BYTES_PER_S = 4 * 1024 * 1024  # of one connection, in the long run
BURST_BYTES = 16 * 1024 * 1024
MESSAGE_COST_BYTES = 4 * 1024  # that a message counts beside its own: at most 1,024 a second
VALUE_COST_BYTES = 16  # that a value counts beside its own
_OPEN = frozenset({"structuredContent", "inputSchema", "outputSchema", "_meta", "data"})


class Pace:
    """Bytes per second of one connection; a reader that waits leaves the rest to the sender."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._left, self._at = clock, float(BURST_BYTES), clock()

    async def wait(self, length: int, values: int = 0, messages: int = 1) -> None:
        """Wait until so much more may be read."""
        now = self._clock()
        self._left = min(BURST_BYTES, self._left + (now - self._at) * BYTES_PER_S)
        self._at = now
        self._left -= length + values * VALUE_COST_BYTES + messages * MESSAGE_COST_BYTES
        if self._left < 0:
            await asyncio.sleep(-self._left / BYTES_PER_S)


def values_in(data: bytes) -> int:
    """An upper bound of the JSON values in a text, found without parsing it."""
    return 1 + data.count(b",") + data.count(b"{") + data.count(b"[")


def is_costly(message: JSONRPCMessage) -> bool:
    """Whether the SDK would look at too many values; it does not look into what is left open."""
    match message:
        case JSONRPCResponse(result=checked):
            pass
        case JSONRPCRequest(params=checked) | JSONRPCNotification(params=checked):
            pass
        case _:
            return False
    left, places = TYPED_VALUES_MAX, [checked]
    while places and left >= 0:
        match places.pop():
            case Mapping() as fields:
                left -= len(fields)
                places += [value for name, value in fields.items() if name not in _OPEN]
            case str():
                pass
            case Sequence() as items:
                left -= len(items)
                places += items
            case _:
                pass
    return left < 0
