"""Time-outs of a loop that stood still, on a real loop with a real socket."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from services.worker.tasks import fair_timeout as module
from services.worker.tasks.fair_timeout import (
    EXTENSIONS_MAX,
    GRACE_S,
    FairTimeout,
    FairTimer,
    wait_fairly,
)

pytestmark = pytest.mark.wide  # each waits for real time

TIMEOUT_S = 0.2
STALL_S = 0.6


@asynccontextmanager
async def connection() -> AsyncIterator[tuple[asyncio.StreamReader, socket.socket]]:
    """A reader of this loop, and the other end, which needs no loop to write."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        yield reader, theirs
    finally:
        writer.close()
        theirs.close()
        await writer.wait_closed()


async def in_hops(reader: asyncio.StreamReader) -> bytes:
    """An answer that takes several turns of the loop to be read, as HTTP does."""
    head = await reader.readexactly(1)
    await asyncio.sleep(0)
    body = await reader.readexactly(3)
    await asyncio.sleep(0)
    return head + body


async def test_an_answer_in_the_socket_is_read_before_a_timeout_counts() -> None:
    async with connection() as (reader, theirs), FairTimeout(TIMEOUT_S):
        reading = asyncio.create_task(in_hops(reader))
        await asyncio.sleep(0.01)
        theirs.send(b"paid")
        time.sleep(STALL_S)  # noqa: ASYNC251 - the loop stands still
        assert await reading == b"paid"


async def test_an_answer_that_takes_more_than_one_reading_has_its_turns() -> None:
    async def answered() -> bytes:
        async with FairTimeout(TIMEOUT_S):
            return await in_hops(reader)

    async with connection() as (reader, theirs):
        reading = asyncio.create_task(answered())
        await asyncio.sleep(0.01)
        theirs.send(b"p")
        time.sleep(STALL_S)  # noqa: ASYNC251 - the loop stands still
        await asyncio.sleep(GRACE_S / 4)
        theirs.send(b"aid")
        assert await reading == b"paid"


async def test_without_an_answer_the_extension_ends() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    loop.call_later(0.01, time.sleep, STALL_S)
    with pytest.raises(TimeoutError):
        async with FairTimeout(TIMEOUT_S):
            await asyncio.Event().wait()

    assert loop.time() - began >= STALL_S + GRACE_S


async def test_a_loop_that_never_keeps_its_time_has_timeouts_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LATE_S", -1.0)  # every timer is late
    monkeypatch.setattr(module, "GRACE_S", 0.01)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with FairTimeout(0.01):
            await asyncio.Event().wait()

    assert loop.time() - began >= 0.01 * EXTENSIONS_MAX


async def test_on_time_it_is_an_ordinary_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with FairTimeout(0.01):
            await asyncio.Event().wait()
    async with FairTimeout(60):
        pass
    with pytest.raises(ValueError, match="mine"):
        async with FairTimeout(60):
            raise ValueError("mine")


async def test_a_cancellation_from_outside_is_none_of_its_timeouts() -> None:
    async def main() -> None:
        async with FairTimeout(60):
            await asyncio.Event().wait()

    task = asyncio.create_task(main())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def stand_still(theirs: socket.socket) -> None:
    theirs.send(b"paid")
    time.sleep(STALL_S)


async def test_tasks_are_waited_for_with_the_same_extension() -> None:
    async with connection() as (reader, theirs):
        reading = asyncio.create_task(in_hops(reader))
        asyncio.get_running_loop().call_later(0.01, stand_still, theirs)
        await wait_fairly([reading], TIMEOUT_S)
        assert reading.done()

        endless = asyncio.create_task(asyncio.Event().wait())
        await wait_fairly([endless], 0.01)
        assert not endless.done()
        endless.cancel()
        with suppress(asyncio.CancelledError):
            await endless


async def test_a_timer_gives_the_same_extension() -> None:
    async with connection() as (reader, theirs):
        reading = asyncio.create_task(in_hops(reader))
        asyncio.get_running_loop().call_later(0.01, stand_still, theirs)
        was_read: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        FairTimer(TIMEOUT_S, lambda: was_read.set_result(reading.done()))

        assert await was_read


async def test_one_that_has_ended_is_freed_without_a_search_for_garbage() -> None:
    gc.disable()
    try:
        timeout = FairTimeout(TIMEOUT_S)
        left = weakref.ref(timeout)
        async with timeout:
            await asyncio.sleep(0)
        del timeout
        assert left() is None
    finally:
        gc.enable()


async def test_a_timer_that_is_cancelled_does_not_come() -> None:
    came: list[bool] = []
    timer = FairTimer(0.01, lambda: came.append(True))
    timer.cancel()
    await asyncio.sleep(0.05)

    assert came == []


STOPPED = """
import asyncio, socket, sys
from services.worker.tasks.fair_timeout import FairTimeout

async def main():
    ours = socket.socket(fileno=int(sys.argv[1]))
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(b"?")
    try:
        async with FairTimeout(1.0):
            print((await reader.readexactly(4)).decode())
    except TimeoutError:
        print("too late")

asyncio.run(main())
"""


def test_a_process_that_was_stopped_reads_what_is_in_its_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", STOPPED, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
            text=True,
        )
        ours.settimeout(30)
        assert ours.recv(1) == b"?"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.5)  # stopped before its time is over, and
        ours.send(b"paid")
        time.sleep(1.5)  # woken up behind it
        os.kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=30)

    assert out.strip() == "paid"
