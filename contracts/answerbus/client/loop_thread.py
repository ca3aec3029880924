"""An event loop in its own thread, for callers without a loop or with a running one."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

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
        """Cancel what still runs, and wait for the end of the thread."""
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(self._stopping.set)
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
        """Start the work; raises RuntimeError outside of start and stop, and after a fork."""
        if self._loop is None:
            work.close()
            raise RuntimeError("The client is not open: use `with` or call `open()`.")
        if self.is_forked:
            work.close()
            raise RuntimeError(
                "The client was opened before this process was forked: open another one here."
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work and give its result; Ctrl-C cancels it."""
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _serve(self, started: "Future[asyncio.AbstractEventLoop]") -> None:
        started.set_result(asyncio.get_running_loop())
        await self._stopping.wait()
