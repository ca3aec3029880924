"""Blocking calls in threads that the process need not wait for.

A thread of the event loop's pool would be kept from the worker's other work for as long as a call
hangs, and the end of the process wait for it.
"""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Thread
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class OwnThread(Generic[K, T]):
    """One call at a time for each argument: while one hangs, all wait for that one."""

    def __init__(self, work: Callable[[K], T]) -> None:
        self._work = work
        self._calls: dict[K, Future[T]] = {}

    async def __call__(self, argument: K) -> T:
        call = self._calls.get(argument)
        if call is None or call.done():
            call = Future()
            call.set_running_or_notify_cancel()  # who leaves does not end it
            Thread(target=self._run, args=(call, argument), name="blocking", daemon=True).start()
            self._calls[argument] = call  # not before: a thread may fail to start
        return await asyncio.wrap_future(call)

    def _run(self, call: Future[T], argument: K) -> None:
        try:
            call.set_result(self._work(argument))
        except Exception as error:
            call.set_exception(error)
        except BaseException as error:  # such as SystemExit, which would end the event loop
            call.set_exception(RuntimeError(f"the library has raised {type(error).__name__}"))
