"""Several workers under one command: restarted when they die, and drained together."""

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any

from services.settings.profiles import Profile
from services.settings.reloadable import fixed_differences
from services.settings.secrets import mask_of
from services.settings.settings import KafkaSettings, Settings, SettingsFile, SetUpError
from services.settings.worker import WorkerSettings
from services.telemetry.logs import Level, start_logging
from services.text.escaping import plain
from services.text.host_and_port import host_and_port
from services.worker.lane.siblings import Siblings
from services.worker.main import run


def share(settings: Settings, number: int, processes: int) -> Settings:
    """The settings of process `number` (from 0). Raises SetUpError where there is too little."""
    return settings.model_copy(
        update={
            "kafka": _kafka(settings.kafka, number),
            "worker": _worker(settings.worker, number, processes),
            "profiles": {
                name: _profile(name, profile, number, processes)
                for name, profile in settings.profiles.items()
            },
        }
    )


def _kafka(kafka: KafkaSettings, number: int) -> KafkaSettings:
    if kafka.group_instance_id is None:
        return kafka
    return kafka.model_copy(update={"group_instance_id": f"{kafka.group_instance_id}-{number}"})


def _worker(worker: WorkerSettings, number: int, processes: int) -> WorkerSettings:
    """Health ports count up from the one that is named; port 0 is any free one for each."""
    health, found = worker.health, host_and_port(worker.health)
    if found and found[1]:
        health = f"{found[0]}:{found[1] + number}"
    return worker.model_copy(
        update={
            "name": worker.name and f"{worker.name}-{number}",
            "health": health,
            "max_in_flight": _part("worker.max_in_flight", worker.max_in_flight, number, processes),
            "held_max": _part("worker.held_max", worker.held_max, number, processes),
        }
    )


def _profile(name: str, profile: Profile, number: int, processes: int) -> Profile:
    if profile.scope == "group":  # each process is a worker of the group, and has its lanes' part
        return profile
    limits = ("max_in_flight", "requests_per_minute", "tokens_per_minute")
    stated = {limit: getattr(profile, limit) for limit in limits}
    parts = {
        limit: _part(f"profiles.{name}.{limit}", whole, number, processes)
        for limit, whole in stated.items()
        if whole is not None
    }
    return profile.model_copy(update=parts)


def _part(setting: str, whole: int, number: int, processes: int) -> int:
    if whole < processes:
        raise SetUpError(
            f"Setting `{setting}` is {whole}, too little to be shared by {processes} processes; "
            "raise it, or start fewer."
        )
    return whole // processes + (number < whole % processes)


RESTART_FIRST_S = 1.0
RESTART_MAX_S = 30.0
STABLE_S = 60.0  # who has lasted this long is restarted at once
LOOK_EVERY_S = 0.5
EXIT_SET_UP = 3

_CONTEXT = multiprocessing.get_context("spawn")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProcessShare:
    """Which of how many a process is, and for how many it waits at its start."""

    number: int
    count: int
    waits_for: int


class Processes:
    """Each process is a worker with its share of the limits; partitions are shared by the group."""

    def __init__(self, settings: Settings, file: SettingsFile, level: Level, count: int) -> None:
        for number in range(count):
            share(settings, number, count)  # or there is too little, which is said at once
        self._settings, self._file = settings, file
        self._level, self._count = level, count
        self._joined = _CONTEXT.Value("i", 0)
        self._running: dict[int, SpawnProcess] = {}
        self._started_at = [0.0] * count
        self._replaced: set[int] = set()  # processes that were started again
        self._pauses_s = [RESTART_FIRST_S] * count
        self._due_at = [0.0] * count
        self._leaving = False

    def run(self) -> int:
        """Until a signal, then until all have drained; gives the exit code."""
        for wish in (signal.SIGTERM, signal.SIGINT):
            signal.signal(wish, lambda *_: self._leave())
        signal.signal(signal.SIGHUP, lambda *_: self._look_at_settings())
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
        for number in range(self._count):
            if self._leaving or number in self._running or now < self._due_at[number]:
                continue
            if number in self._replaced:
                self._settings = self._latest()
            waits_for = 0 if number in self._replaced else self._count
            part = ProcessShare(number, self._count, waits_for)
            process = _CONTEXT.Process(
                target=_work,
                args=(self._settings, self._file, self._level, part, self._joined),
                name=f"worker-{number}",
            )
            # Blocked, the signal waits until the process has a handler, and does not end it.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
            process.start()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
            self._running[number], self._started_at[number] = process, now
            if self._leaving:  # the wish came between the two lines above
                process.terminate()

    def _latest(self) -> Settings:
        """The settings of the file where the running processes can have taken them, or the last."""
        try:
            found = self._file.load()
            for number in range(self._count):
                share(found, number, self._count)
        except SetUpError:
            return self._settings
        return self._settings if fixed_differences(self._settings, found) else found

    def _ended(self, number: int, code: int) -> int:
        """The exit code that this end is worth; without one, it is started again.

        A set-up that cannot work ends all, but not processes that work already.
        """
        if code == EXIT_SET_UP and not (number in self._replaced and self._running):
            self._leave()
            return EXIT_SET_UP
        if self._leaving:
            return 0 if code in {0, -signal.SIGTERM} else 1  # the latter before it had begun
        self._replaced.add(number)
        now = time.monotonic()
        calm = now - self._started_at[number] >= STABLE_S
        pause_s = self._pauses_s[number] = (
            RESTART_FIRST_S if calm else min(self._pauses_s[number] * 2, RESTART_MAX_S)
        )
        self._due_at[number] = now if calm else now + pause_s
        _log.error("worker process %d exited with code %d, restarting", number, code)
        return 0

    def _look_at_settings(self) -> None:
        for process in self._running.values():
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGHUP)

    def _leave(self) -> None:
        self._leaving = True
        for process in self._running.values():
            process.terminate()


def _work(
    settings: Settings, file: SettingsFile, level: Level, part: ProcessShare, joined: Any
) -> None:
    mask = mask_of(settings)
    start_logging(level, mask)
    own = partial(share, number=part.number, processes=part.count)
    try:
        siblings = Siblings(part.waits_for, joined)
        asyncio.run(_while_wanted(partial(run, settings, file, mask, own, siblings)))
    except SetUpError as error:
        sys.stderr.write(plain(f"{error}\n"))
        sys.exit(EXIT_SET_UP)


async def _while_wanted(work: Callable[[], Awaitable[None]]) -> None:
    """Drain also when the parent is gone: no signal would come any more."""
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("only a child process runs this")
    loop = asyncio.get_running_loop()

    def drain() -> None:
        loop.remove_reader(parent.sentinel)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(parent.sentinel, drain)
    await work()
