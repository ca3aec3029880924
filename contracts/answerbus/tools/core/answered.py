"""The latest answers of a server, so that a repeated call gets its first one again; pure."""

from collections import OrderedDict

from answerbus.request_key import CallKey
from answerbus.tool_call import ToolCallRecord
from answerbus.tool_result import ToolResult

ANSWERS_MAX = 10_000
ANSWERS_BYTES_MAX = 16 * 1024 * 1024


class AnsweredCalls:
    """By workflow and call id, the digest of its arguments and its result; the oldest go first."""

    def __init__(self, count_max: int = ANSWERS_MAX, bytes_max: int = ANSWERS_BYTES_MAX) -> None:
        self._count_max, self._bytes_max = count_max, bytes_max
        self._kept: OrderedDict[CallKey, tuple[str, ToolResult, int]] = OrderedDict()
        self._bytes = 0

    def keep(self, record: ToolCallRecord, result: ToolResult, size: int) -> None:
        """`size` is that of the result on the wire."""
        call = CallKey.of(record)
        self._drop(call)
        self._kept[call] = (record.args_digest, result, size)
        self._bytes += size
        while self._kept and (len(self._kept) > self._count_max or self._bytes > self._bytes_max):
            self._drop(next(iter(self._kept)))

    def find(self, record: ToolCallRecord) -> tuple[str, ToolResult] | None:
        """The digest of the arguments that it was answered for, and the answer."""
        found = self._kept.get(CallKey.of(record))
        return None if found is None else found[:2]

    def _drop(self, call: CallKey) -> None:
        gone = self._kept.pop(call, None)
        if gone is not None:
            self._bytes -= gone[2]
