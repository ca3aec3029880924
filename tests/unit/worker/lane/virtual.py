"""An event loop whose time jumps to the next timer, so that an hour of waiting takes no time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tests.unit.worker.builders import NOW

P = ParamSpec("P")
T = TypeVar("T")
LEFT_S = 60.0  # for what goes on in the background to end


class EverythingWaitsError(Exception):
    """Nothing can ever happen again: some task waits for what nobody will do."""


class _JumpingSelector(selectors.SelectSelector):
    """Instead of sleeping, moves the time on."""

    def __init__(self) -> None:
        super().__init__()
        self.time_s = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise EverythingWaitsError
        self.time_s += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only while every task waits."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self.slow_callback_duration = 1e9
        self.errors: list[Mapping[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.errors.append(context))

    def time(self) -> float:
        return self._jumping.time_s

    def block(self, seconds: float) -> None:
        """What a long computation does: nobody runs, and timers fall due."""
        self._jumping.time_s += seconds


class VirtualClock:
    """The wall clock of that time, with the microseconds that a real one has; see MeasuredClock."""

    is_measured = True

    def now(self) -> datetime:
        passed_s = asyncio.get_running_loop().time() - 1000.0
        return NOW + timedelta(seconds=passed_s, microseconds=123)

    def steady_s(self) -> float:
        return asyncio.get_running_loop().time()

    def set_broker_time(self, broker_ms: int, before_s: float, after_s: float) -> None:
        """It is the broker's own."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs to the end; an exception that nobody took is raised, as are tasks that never end."""
    loop = VirtualLoop()
    try:
        result = loop.run_until_complete(main)
        left = asyncio.all_tasks(loop)
        if left:
            _, left = loop.run_until_complete(asyncio.wait(left, timeout=LEFT_S))
        assert not left, f"tasks that never end: {left}"
        assert not loop.errors, loop.errors
        return result
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        if left := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()


def on_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test, which is run to its end in a loop of its own; see `run`."""

    @wraps(test)
    def ran(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return ran
