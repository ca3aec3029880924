"""The workers or tool servers of a run: processes that are started, killed, frozen, replaced."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SET_UP_EXIT = 3  # what a worker says that finds no broker at its start
SIGTERM_EXIT = 143  # of a worker that had not begun
WORKER = ("-m", "tests.chaos.worker", "worker")
NEXT_WORKER = ("-m", "tests.benchmarks.next_rebalance.worker", "worker")
RESTART_S = 1.0  # after a worker ended by itself
DRAIN_LIMIT_S = 60.0


@dataclass
class Worker:
    """A process, and what was done to it."""

    process: "subprocess.Popen[bytes]"
    log: Path
    was_signalled: bool = False

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if there still is somebody."""
        self.was_signalled |= number in {signal.SIGKILL, signal.SIGTERM}
        self.process.send_signal(number)

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def lines(self) -> Iterator[dict[str, str]]:
        """What it logged."""
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("{"):
                yield json.loads(line)


@dataclass
class Fleet:
    """Slots with a worker each, or an empty one that waits for its next worker.

    `environment` gives the variables of the worker in a slot, beside those that all have. A tool
    server is a worker here: `command` says what is started, and `ready` what it then logs.
    """

    config: Path
    folder: Path
    environment: Callable[[int], Mapping[str, str]] = lambda _slot: {}
    slots: dict[int, Worker | None] = field(default_factory=dict)
    started: list[Worker] = field(default_factory=list)
    name: str = "worker"
    command: Sequence[str] = WORKER
    ready: bytes = b"health at"

    def start(self, slot: int) -> None:
        """Put a new worker into a slot; returns at once."""
        log = self.folder / f"{self.name}-{len(self.started)}.log"
        mine = {name: v for name, v in os.environ.items() if not name.startswith("ANSWERBUS_")}  # noqa: TID251
        with log.open("wb") as output:
            mine |= self.environment(slot)
            command = [sys.executable, *self.command, "--config", str(self.config)]
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, env=mine)
        worker = Worker(process, log)
        self.slots[slot] = worker
        self.started.append(worker)

    def send(self, slot: int, number: signal.Signals) -> None:
        """Send a signal to the process in a slot."""
        worker = self.slots.get(slot)
        if worker and not worker.has_ended:
            worker.send(number)

    def all_ready(self) -> bool:
        """Whether each worker has said that it is."""
        return all(self.ready in worker.log.read_bytes() for worker in self.started)

    def supervise(self, restart: Callable[[int], None]) -> None:
        """Notice workers that ended by themselves, as a process manager would."""
        for slot, worker in self.slots.items():
            if worker and worker.has_ended and not worker.was_signalled:
                self.slots[slot] = None
                restart(slot)

    def drain(self) -> bool:
        """SIGTERM to all; whether each of them ended in time."""
        ended = True
        for worker in self._running():
            worker.send(signal.SIGCONT)
            worker.send(signal.SIGTERM)
        for worker in self._running():
            try:
                worker.process.wait(DRAIN_LIMIT_S)
            except subprocess.TimeoutExpired:
                ended = False
                worker.send(signal.SIGKILL)
        return ended

    def tell_tasks(self) -> None:
        """Let all that run write into their logs what each task waits for."""
        for worker in self._running():
            worker.send(signal.SIGUSR1)

    def kill(self) -> None:
        """End all that still runs."""
        for worker in self._running():
            worker.send(signal.SIGKILL)
            worker.process.wait()

    def bugs(self) -> list[str]:
        """Log lines and exit codes that no fault excuses."""
        found = []
        for worker in self.started:
            code = worker.process.poll()
            if code not in {None, 0, SET_UP_EXIT, SIGTERM_EXIT, -signal.SIGKILL, -signal.SIGTERM}:
                found.append(f"{worker.log.name}: exit code {code}")
            found += [
                f"{worker.log.name}: {line['message']}: {line.get('exception')} {line.get('trace')}"
                for line in worker.lines()
                if line["message"].startswith("handling a request")
            ]
        return found

    def _running(self) -> list[Worker]:
        return [worker for worker in self.started if not worker.has_ended]
