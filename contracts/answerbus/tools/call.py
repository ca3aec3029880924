"""A call as a tool sees it: its id for idempotency, signs of life, notes for the run's end."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Self

from answerbus.continued_call import GivenInput
from answerbus.limits import NOTE_BYTES_MAX, NOTES_MAX, TOOL_COST_MICRO_USD_MAX
from answerbus.tool_call import CallApproval, ParentRef, ToolCallRecord
from answerbus.tool_result import counted_cost
from answerbus.wire import clip

BEAT_S_MAX = 10.0
_BEATS_A_TIMEOUT = 3

ReportProgress = Callable[[str], None]
KeepState = Callable[[str], Awaitable[None]]


class ToolCall:
    """One delivery of a call; a function gets it by a parameter of this type.

    async def refund(args: Refund, call: ToolCall) -> Receipt:
        async with call.heartbeat("bank asked"):
            return await bank.refund(args.order_id, idempotency_key=call.id)
    """

    def __init__(
        self,
        record: ToolCallRecord,
        timeout_s: float,
        report: ReportProgress,
        loop: asyncio.AbstractEventLoop,
        trace: Mapping[str, str] | None = None,
        *,
        state: str | None = None,
        given: GivenInput | None = None,
        keep: KeepState | None = None,
    ) -> None:
        self.id: str = record.call_id
        """The same in each delivery of this call: an idempotency key."""
        self.delivery: int = record.delivery
        self.request_id: str = record.request_id
        self.workflow_id: str = record.workflow_id
        self.parent: ParentRef = record.parent
        """What a request of this tool names as its parent, to stand in the run's own turn."""
        self.approved: CallApproval | None = record.approved
        self.labels: dict[str, str] = dict(record.labels)
        self.trace: Mapping[str, str] = trace or {}
        """`traceparent` and `tracestate` of the call, for the headers of what the tool asks."""
        self.state = state
        """By which the call goes on; None if it is to begin."""
        self.given = given
        """A person's answer to what the tool asked last."""
        self._keep = keep
        self.timeout_s = timeout_s
        """How long the call may go on without a sign of life."""
        self._report, self._loop = report, loop
        self._notes: list[str] = []
        self._micro_usd: int | None = None

    def note(self, text: str) -> None:
        """Tell the reader of the run's answer something: it comes with its notes, 32 at most."""
        if len(self._notes) < NOTES_MAX:
            self._notes.append(clip(str(text), NOTE_BYTES_MAX))

    @property
    def notes(self) -> tuple[str, ...]:
        """The texts so far: 32 at most, each cut to 1 KiB."""
        return tuple(self._notes)

    def cost(self, micro_usd: float) -> None:
        """Charge the budget of the run for what this call costs elsewhere; several add up.

        A fraction is rounded up. At most a thousand dollars a call. What the budget no longer has
        is not charged: a note of the run says so, and no model is asked after it.
        """
        counted = counted_cost(micro_usd)
        if counted is None:
            raise ValueError(f"a cost is 0 or more millionths of a dollar, not {micro_usd!r}")
        self._micro_usd = min((self._micro_usd or 0) + counted, TOOL_COST_MICRO_USD_MAX)

    @property
    def micro_usd(self) -> int | None:
        """The cost so far; None where the tool has named none."""
        return self._micro_usd

    def progress(self, text: str = "") -> None:
        """Say that the call goes on: its time-out starts again. From any thread."""
        message = clip(str(text), NOTE_BYTES_MAX)
        self._loop.call_soon_threadsafe(self._report, message)

    async def keep(self, state: str) -> None:
        """Have the call go on by this state after a crash; returns once the broker has it."""
        self.state = state
        if self._keep is not None:
            await self._keep(state)

    def heartbeat(self, text: str = "") -> "Heartbeat":
        """Report progress regularly while a block lasts; `async with`, or `with` in a thread."""
        every_s = min(self.timeout_s / _BEATS_A_TIMEOUT, BEAT_S_MAX)
        return Heartbeat(self.progress, self._loop, text, every_s)


class Heartbeat:
    """Progress at an interval, until its block ends."""

    def __init__(
        self, report: ReportProgress, loop: asyncio.AbstractEventLoop, text: str, every_s: float
    ) -> None:
        self._report, self._loop = report, loop
        self._text, self._every_s = text, every_s
        self._is_over = False

    def __enter__(self) -> Self:
        self._loop.call_soon_threadsafe(self._beat)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    def _beat(self) -> None:
        if not self._is_over:
            self._report(self._text)
            self._loop.call_later(self._every_s, self._beat)
