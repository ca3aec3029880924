"""Several workers under one command: restarted when they die, and drained together."""

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

from services.escaping import plain
from services.live_mask import mask_of
from services.settings import Settings, SetUpError
from services.telemetry.logs import Level, start_logging
from services.worker.main import run
from services.worker.shares import share

RESTART_FIRST_S = 1.0
RESTART_MAX_S = 30.0
STABLE_S = 60.0  # who has lasted this long is restarted at once
LOOK_EVERY_S = 0.5
EXIT_SET_UP = 3

_log = logging.getLogger(__name__)


class Processes:
    """Each process is a worker with its share of the limits; partitions are shared by the group."""

    def __init__(self, settings: Settings, level: Level, count: int) -> None:
        self._shares = [share(settings, number, count) for number in range(count)]
        self._level = level
        self._running: dict[int, SpawnProcess] = {}
        self._started_at = [0.0] * count
        self._pauses_s = [RESTART_FIRST_S] * count
        self._due_at = [0.0] * count
        self._leaving = False

    def run(self) -> int:
        """Until a signal, then until all have drained; gives the exit code."""
        for wish in (signal.SIGTERM, signal.SIGINT):
            signal.signal(wish, lambda *_: self._leave())
        worst = 0
        while self._running or not self._leaving:
            self._start_due()
            wait([process.sentinel for process in self._running.values()], LOOK_EVERY_S)
            for number, process in list(self._running.items()):
                if process.exitcode is not None:
                    del self._running[number]
                    worst = max(worst, self._ended(number, process.exitcode))
        return worst

    def _start_due(self) -> None:
        now = time.monotonic()
        for number, its_share in enumerate(self._shares):
            if self._leaving or number in self._running or now < self._due_at[number]:
                continue
            process = multiprocessing.get_context("spawn").Process(
                target=_work, args=(its_share, self._level), name=f"worker-{number}"
            )
            process.start()
            self._running[number], self._started_at[number] = process, now
            if self._leaving:  # the wish came between the two lines above
                process.terminate()

    def _ended(self, number: int, code: int) -> int:
        """The exit code that this end is worth; without one, it is started again."""
        if code == EXIT_SET_UP:
            self._leave()
            return EXIT_SET_UP
        if self._leaving:
            return 0 if code in {0, -signal.SIGTERM} else 1  # the latter before it had begun
        now = time.monotonic()
        calm = now - self._started_at[number] >= STABLE_S
        pause_s = self._pauses_s[number] = (
            RESTART_FIRST_S if calm else min(self._pauses_s[number] * 2, RESTART_MAX_S)
        )
        self._due_at[number] = now if calm else now + pause_s
        _log.error("worker process %d ended with code %d; another follows", number, code)
        return 0

    def _leave(self) -> None:
        self._leaving = True
        for process in self._running.values():
            process.terminate()


def _work(settings: Settings, level: Level) -> None:
    """What a child process does."""
    start_logging(level, mask_of(settings))
    try:
        asyncio.run(_run_while_wanted(settings))
    except SetUpError as error:
        sys.stderr.write(plain(f"{error}\n"))
        sys.exit(EXIT_SET_UP)


async def _run_while_wanted(settings: Settings) -> None:
    """Drain also when the parent is gone: no signal would come any more."""
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("only a child process runs this")
    loop = asyncio.get_running_loop()

    def drain() -> None:
        loop.remove_reader(parent.sentinel)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(parent.sentinel, drain)
    await run(settings)
