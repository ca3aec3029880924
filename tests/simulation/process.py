"""Processes on one event loop: each can be frozen and woken (SIGSTOP, SIGCONT) or killed."""

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVarTuple

from tests.unit.worker.lane.virtual import VirtualLoop

CURRENT: ContextVar["Process | None"] = ContextVar("process", default=None)
Ts = TypeVarTuple("Ts")
CLEAN_UP_S = 600.0  # for what a killed process has left to be cleaned out of memory


class _Entry:
    """Something that is to run in a process, and the handle by which it may be cancelled."""

    __slots__ = ("args", "callback", "handle")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.callback, self.args = callback, args
        self.handle: asyncio.Handle


class Process:
    """What runs in its context is its own: while it is frozen none of that happens.

    What falls due meanwhile happens in that order when it wakes. One that was killed never wakes.
    """

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.is_frozen = self.is_dead = self.is_cut_off = False
        self.absences = 0  # how often it was frozen, killed or cut off
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.context = copy_context()
        self.context.run(CURRENT.set, self)
        self._held: deque[_Entry] = deque()

    @property
    def is_well(self) -> bool:
        """Whether it hears and answers."""
        return not (self.is_frozen or self.is_dead or self.is_cut_off)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something in this process."""
        return asyncio.get_running_loop().create_task(work, context=self.context)

    def call(self, callback: Callable[..., None], *args: object) -> None:
        """Let something happen in this process."""
        asyncio.get_running_loop().call_soon(callback, *args, context=self.context)

    def take(self, entry: _Entry) -> None:
        """Run it, or keep it for later."""
        if self.is_frozen or self.is_dead:
            self._held.append(entry)
        elif not entry.handle.cancelled():
            entry.callback(*entry.args)

    def wake(self) -> None:
        """Go on where it was frozen."""
        self.is_frozen = False
        held, self._held = self._held, deque()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        for entry in held:
            context: Context = entry.handle._context  # type: ignore[attr-defined]
            VirtualLoop.call_soon(loop, self.take, entry, context=context)

    def unfinished(self) -> list[asyncio.Task[Any]]:
        """Its tasks that have not ended."""
        return [task for task in self.tasks if not task.done()]


class ProcessLoop(VirtualLoop):
    """Virtual time, and callbacks that belong to processes."""

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context  # an empty one is falsy
        process = context.get(CURRENT)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        entry = _Entry(callback, args)
        entry.handle = super().call_soon(process.take, entry, context=context)
        return entry.handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context  # an empty one is falsy
        process = context.get(CURRENT)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        entry = _Entry(callback, args)
        entry.handle = handle = super().call_at(when, process.take, entry, context=context)
        return handle

    def create_task(
        self, coro: Any, *, name: object = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context)
        process = CURRENT.get() if context is None else context.get(CURRENT)
        if process is not None:
            process.tasks.add(task)
        return task


OUTSIDE = copy_context()  # what happens here happens in no process


def run_and_clean_up(main: Coroutine[Any, Any, None], processes: list[Process]) -> list[str]:
    """Run to the end of `main`; gives what was raised and taken by nobody.

    Afterwards all that is left over is ended, so that nothing of it is ever heard of again.
    """
    loop = ProcessLoop()
    try:
        loop.run_until_complete(main)
    finally:
        errors = [f"{e.get('message')}: {e.get('exception')!r}" for e in loop.errors]
        for process in processes:
            process.is_dead = False
            loop.run_until_complete(_woken(process))
        while left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=CLEAN_UP_S))
        loop.close()
    return errors


async def _woken(process: Process) -> None:
    process.wake()
