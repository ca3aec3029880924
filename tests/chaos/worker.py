"""A worker that tells on SIGUSR1 what each of its tasks waits for, so that a hang can be found."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from services.cli import main


def waits_of(awaited: Any) -> Iterator[str]:
    """Where a coroutine is, and what it awaits, down to the last."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            yield repr(awaited)
        else:
            yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def tell(_number: int, _frame: FrameType | None) -> None:
    """Write all tasks to the log, as lines that are no JSON."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return  # it has not begun, or has ended
    for task in asyncio.all_tasks(loop):
        lines = "\n    ".join(waits_of(task.get_coro()))
        sys.stderr.write(f"task {task.get_name()}, cancelled {task.cancelling()}:\n    {lines}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, tell)
    main()
