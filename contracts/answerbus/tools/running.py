"""Runs one tool, bounded in time: on the event loop, or in a thread of its own."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from answerbus.limits import TOOL_TIMEOUT_S_MAX
from answerbus.tool_result import ToolFailure, ToolOk
from answerbus.tools.core.asking import Ask
from answerbus.tools.core.failing import ToolError, crashed, outcome_of, timed_out
from answerbus.tools.core.tool import Tool

CLEAN_UP_S = 1.0  # for a tool whose time is over, before it is left behind
CANCEL_S = 5.0  # for what is kept for a call that is not wanted any more

Outcome = ToolOk | ToolFailure
Ended = Outcome | Ask
"""How the work on a delivery ends: with the call, or with a question to a person."""

_log = logging.getLogger(__name__)


class NamedCall(Protocol):
    """Whatever a tool gets beside its arguments; its id is for the log."""

    @property
    def id(self) -> str:
        """The id of the call."""


class TimeLimit:
    """How long a call may go on: `timeout_s` from its last sign of life, six hours in all."""

    def __init__(self, timeout_s: float, loop: asyncio.AbstractEventLoop) -> None:
        self.timeout_s = timeout_s
        self._loop = loop
        self._last = loop.time() + TOOL_TIMEOUT_S_MAX
        self._until = loop.time() + timeout_s

    def renew(self) -> None:
        """There was a sign of life."""
        self._until = self._loop.time() + self.timeout_s

    def left_s(self) -> float:
        """Seconds until the call must end; negative once it is late."""
        return min(self._until, self._last) - self._loop.time()


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The end of a run; `straggler` is one that goes on after its time-out, ignored."""

    outcome: Ended
    straggler: "asyncio.Future[Ended] | None" = None
    is_late: bool = False


async def run(tool: Tool, args: object, call: NamedCall, limit: TimeLimit) -> RunEnded:
    """The outcome of a tool, also of one that raises. Cancelled, it cancels the tool."""
    work = _start(tool, args, call)
    try:
        while not work.done() and (left_s := limit.left_s()) > 0:
            await asyncio.wait([work], timeout=left_s)
            work = _awaited_after(work, tool, call)
        if not work.done():
            return await _late(work, tool, limit)
    except asyncio.CancelledError:
        _end(work)
        raise
    return RunEnded(crashed(asyncio.CancelledError()) if work.cancelled() else work.result())


async def _late(work: "asyncio.Future[Any]", tool: Tool, limit: TimeLimit) -> RunEnded:
    """A task may ignore its cancellation, and nothing can end a thread."""
    _end(work)
    if isinstance(work, asyncio.Task):
        await asyncio.wait([work], timeout=CLEAN_UP_S)
    ended = timed_out(limit.timeout_s, retryable=tool.card.delivery == "at_least_once")
    return RunEnded(ended, None if work.done() else work, is_late=True)


def _end(work: "asyncio.Future[Any]") -> None:
    if isinstance(work, asyncio.Task):
        work.cancel()


def _start(tool: Tool, args: object, call: NamedCall) -> "asyncio.Future[Any]":
    if tool.is_async:
        return asyncio.create_task(_awaited(lambda: tool.call(args, call), tool, call))
    return _in_thread(lambda: _called(tool, args, call))


def _awaited_after(
    work: "asyncio.Future[Any]", tool: Tool, call: NamedCall
) -> "asyncio.Future[Any]":
    """The work, or the wait for what a thread returned: here it can be cancelled."""
    if work.done() and not work.cancelled() and isinstance(made := work.result(), Awaitable):
        return asyncio.create_task(_awaited(lambda: made, tool, call))
    return work


async def _awaited(make: Callable[[], object], tool: Tool, call: NamedCall) -> Ended:
    try:
        made = make()
        return _ended_by(await made if isinstance(made, Awaitable) else made)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return _failed(error, tool, call)


def _called(tool: Tool, args: object, call: NamedCall) -> Ended | Awaitable[object]:
    try:
        made = tool.call(args, call)  # to be awaited: an async function behind a decorator
        return made if isinstance(made, Awaitable) else _ended_by(made)
    except BaseException as error:
        return _failed(error, tool, call)


def _ended_by(value: object) -> Ended:
    return value if isinstance(value, Ask) else outcome_of(value)


def _failed(error: BaseException, tool: Tool, call: NamedCall) -> Outcome:
    """Also of a tool that would end its process, as `sys.exit` does."""
    if isinstance(error, ToolError):
        try:
            return error.failure
        except Exception as odd:  # its words have no text, or it is of a class of the tool's own
            error = odd
    _log.error("the tool %s failed in the call %s", tool.name, call.id, exc_info=error)
    return crashed(error)


def _in_thread(function: Callable[[], object]) -> "asyncio.Future[Any]":
    """A daemon thread, so that a function that hangs does not keep its process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = context.run(function)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(future.set_result, outcome)

    threading.Thread(target=work, name="answerbus tool", daemon=True).start()
    return future


async def cancel_kept(cancel: Callable[[str], Awaitable[None]], state: str) -> None:
    """Give up what is kept for a call that is not wanted any more."""
    try:
        async with asyncio.timeout(CANCEL_S):
            await cancel(state)
    except Exception as error:  # of the tool's author
        _log.warning("what a tool keeps for a call is not given up: %s", type(error).__name__)
