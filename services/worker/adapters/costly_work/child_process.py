"""The child process of an event loop for costly work: started at need, ended at a limit."""

import asyncio
import logging
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from services.worker.adapters.costly_work.child import EXIT_MEMORY, LENGTH_BYTES
from services.worker.adapters.costly_work.pickled import dumps, loads
from services.worker.core.limits.fair_queue import FairKey, FairQueue
from services.worker.ports.costly_work import EndedAtLimit, P, T, WorkLimits

START_S_MAX = 30.0
_PROGRAM = """import sys
sys.path[:] = {path!r}
from services.worker.adapters.costly_work.child import main
main()"""

_log = logging.getLogger(__name__)


class ChildProcess:
    """See CostlyWork. One piece of work at a time; owners have their turn one by one."""

    def __init__(self, limits: WorkLimits | None = None) -> None:
        self._limits = limits or WorkLimits()
        self._process: Process | None = None
        self._waiting = FairQueue["asyncio.Future[None]"](lambda turn: turn.done())
        self._is_busy = False
        self._turns = 0

    @property
    def waiting(self) -> int:
        return self._turns

    async def run(
        self, owner: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | EndedAtLimit:
        await self._turn(owner)
        try:
            # A compiled schema may take a while, in pieces that each are short.
            frame = await asyncio.to_thread(dumps, (self._limits, work, args, kwargs))
            result: T | EndedAtLimit = await self._run(frame)
        finally:
            self._is_busy = False
            self._give_turn()
        return result

    async def close(self) -> None:
        if self._process is not None:
            await self._end(self._process)

    async def _turn(self, owner: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(FairKey("", owner), turn)
        self._give_turn()
        self._turns += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it has come, and is not used
                self._is_busy = False
                self._give_turn()
            raise
        finally:
            self._turns -= 1

    def _give_turn(self) -> None:
        if self._is_busy or (found := self._waiting.next()) is None:
            return
        key, turn = found
        self._waiting.serve(key)
        self._is_busy = True
        turn.set_result(None)

    async def _run(self, frame: bytes) -> Any:
        process = None
        try:
            process = await self._started()
            async with asyncio.timeout(self._limits.wall_s):
                goes_on, succeeded, result = await _exchange(process, frame)
        except TimeoutError:
            return EndedAtLimit("wall_time")
        except (EOFError, OSError):
            code = None if process is None else await process.wait()
            return EndedAtLimit(_limit_of(code))
        else:
            if goes_on:
                process = None
            if succeeded:
                return result
            raise result
        finally:
            if process is not None:  # it failed, was abandoned, or has become large
                await asyncio.shield(self._end(process))

    async def _started(self) -> Process:
        """The process, which has read its program. Raises OSError or EOFError."""
        if self._process is not None and self._process.returncode is None:
            return self._process
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PROGRAM.format(path=sys.path)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,  # lines of the log are written by the parent
            env={},  # what is there may be keys
            start_new_session=True,  # signals to a terminal's processes are for the parent
        )
        self._process = process
        try:
            async with asyncio.timeout(START_S_MAX):
                await _frame(process)
        except BaseException:
            await asyncio.shield(self._end(process))
            raise
        return process

    async def _end(self, process: Process) -> None:
        if self._process is process:
            self._process = None
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _limit_of(code: int | None) -> Any:
    """Which limit a process has met that ended with this code."""
    match code:
        case None:
            _log.error("process for costly work does not start")
            return "crash"
        case _ if code == EXIT_MEMORY:
            return "memory"
        case _ if code in {-signal.SIGXCPU, -signal.SIGKILL}:
            return "cpu_time"
        case _ if code == -signal.SIGABRT:  # where native code finds no memory
            return "memory"
        case _:
            _log.error("process for costly work exited with code %d", code)
            return "crash"


async def _exchange(process: Process, frame: bytes) -> tuple[bool, bool, Any]:
    if process.stdin is None:
        raise OSError
    process.stdin.write(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
    await process.stdin.drain()
    frame = await _frame(process)
    read: tuple[bool, bool, Any] = await asyncio.to_thread(loads, frame)
    return read


async def _frame(process: Process) -> bytes:
    """One frame of the process. Raises EOFError if it ends before."""
    if process.stdout is None:
        raise OSError
    length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
    return await process.stdout.readexactly(length)
