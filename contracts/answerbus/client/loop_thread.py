"""An event loop in its own thread, for callers without a loop or with a running one."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar

from answerbus.client.bounded import STOP_TIMEOUT_S
from answerbus.client.errors import BusUnavailable

T = TypeVar("T")


class LoopThread:
    """Runs coroutines one call at a time or many; the thread ends with its process at the latest.

    A notebook and a web server have an event loop that is running already, which must not
    wait for another one to finish; in another thread that holds nothing up.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._lock = threading.Lock()  # what begins before `stop` is there when it cancels
        self._works: set[Coroutine[Any, Any, Any]] = set()
        self._entered: set[AbstractAsyncContextManager[Any]] = set()

    def start(self) -> None:
        """Start the thread, and wait until its loop runs."""
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name=self._name, daemon=True
        )
        self._thread.start()
        self._process = os.getpid()
        self._loop = started.result()

    def stop(self) -> None:
        """Cancel what still runs, leave what was entered, and wait for the end of the thread."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None:
                loop.call_soon_threadsafe(self._stopping.set)
        if loop is not None and self._thread is not None:
            self._thread.join()

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._loop is not None

    @property
    def is_forked(self) -> bool:
        """Whether the thread was left behind in the process that this one was forked from."""
        return self.is_running and self._process != os.getpid()

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start the work.

        Raises RuntimeError outside of start and stop, after a fork, and in the thread itself, where
        who waits for the work would keep it from being done.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(
                "The client is called by code that it runs itself, such as a generator of rows or "
                "a validator of answers: give it a list of rows, or use another client there."
            )
        if self.is_forked:
            work.close()
            raise RuntimeError(
                "The client was opened before this process was forked: open another one here."
            )
        with self._lock:
            if self._loop is None:
                work.close()
                raise RuntimeError("The client is not open: use `with` or call `open()`.")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._works.add(work)
        future.add_done_callback(lambda _: self._works.discard(work))
        return future

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work and give its result; Ctrl-C cancels it."""
        return self.result_of(self.begin(work))

    def result_of(self, future: "Future[T]") -> T:
        """The result of work that was begun; raises BusUnavailable if `stop` cancelled it."""
        try:
            return future.result()
        except CancelledError:
            if self.is_running:
                raise
            raise BusUnavailable("The client was closed while this call waited.") from None
        except BaseException:
            future.cancel()
            raise

    def enter(self, block: AbstractAsyncContextManager[Any]) -> None:
        """Enter the block, which `stop` leaves unless `leave` did."""
        self.call(block.__aenter__())
        self._entered.add(block)

    def leave(self, block: AbstractAsyncContextManager[Any], *raised: Any) -> None:
        """Leave the block as `__aexit__` does, unless `stop` does."""
        if self.is_running and block in self._entered:
            self._entered.discard(block)
            self.call(block.__aexit__(*raised))

    async def _serve(self, started: "Future[asyncio.AbstractEventLoop]") -> None:
        started.set_result(asyncio.get_running_loop())
        await self._stopping.wait()
        # Kafka's clients stop by tasks of their own, which the end of this one cancels.
        calls = [task for task in asyncio.all_tasks() if task.get_coro() in self._works]
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=STOP_TIMEOUT_S)
        while self._entered:
            with suppress(Exception):
                await self._entered.pop().__aexit__(asyncio.CancelledError, None, None)
