"""Broker, stub and contestants as processes, each in a session of its own and ended at the end."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from subprocess import run
from typing import Any, Self

from rich.console import Console

from answerbus.topics import REQUESTS, TOPICS, Topic
from infra.kafka import start_broker
from infra.ports import LOOPBACK, free_ports
from infra.server_process import ServerProcess
from tests.benchmarks import usage
from tests.benchmarks.agents.acting import Plan
from tests.benchmarks.billing import Prices
from tests.benchmarks.journal import Call, read
from tests.benchmarks.latency import Latency
from tests.benchmarks.stub import beginning
from tests.benchmarks.upstream import Upstream
from tests.integration.bus import Bus, Worker, create_topics
from tests.integration.certificates import Authority
from tests.integration.history import tree_of, variables_of
from tests.integration.kafka_admin import kafka_admin

START_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0
CONTROL_LIMIT_S = 10.0
PARTITIONS = 12


@dataclass
class StubProcess:
    """The stub and its control port."""

    process: ServerProcess
    control: int
    base_url: str
    tls_url: str

    def tell(self, **command: Any) -> dict[str, int]:
        """Say a command; what comes back are the stub's numbers."""
        with (
            socket.create_connection((LOOPBACK, self.control), CONTROL_LIMIT_S) as connection,
            connection.makefile("rwb") as lines,
        ):
            lines.write(json.dumps(command).encode() + b"\n")
            lines.flush()
            numbers: dict[str, int] = json.loads(lines.readline())
        return numbers

    def stats(self) -> dict[str, int]:
        return self.tell(do="stats")


@dataclass
class Contestant:
    """One or more processes that do the same work for one group."""

    who: str
    processes: list[ServerProcess]

    def kill(self) -> None:
        """SIGKILL to all, children included."""
        for process in self.processes:
            end(process)

    def stop(self) -> None:
        """SIGTERM to all, and wait."""
        for process in self.processes:
            process.stop(STOP_LIMIT_S)

    def usage(self) -> usage.Usage:
        """Summed over all."""
        each = [usage.of_session(process.pid) for process in self.processes]
        return usage.Usage(
            sum(u.cpu_s for u in each), sum(u.rss_mib for u in each), sum(u.peak_mib for u in each)
        )

    def open_lanes(self) -> int:
        """How many lanes are open, as the workers say."""
        texts = [
            Worker(process.child, process.log).health
            for process in self.processes
            if process.child is not None
        ]
        return sum(list(text["lanes"].values()).count("open") for text in texts)

    def check(self) -> None:
        """Raises if one has ended by itself."""
        for process in self.processes:
            if not process.running:
                raise RuntimeError(f"{self.who} ended; see {process.log}")


@dataclass
class Field:
    """The topics of one trial and what is published into them."""

    rig: "Rig"
    bus: Bus
    upstream: Upstream
    processes: list[ServerProcess] = field(default_factory=list)

    def end(self) -> None:
        """SIGKILL to each process that still runs here."""
        for process in self.processes:
            end(process)

    @property
    def baseline_results(self) -> str:
        """The topic of the baseline's answers."""
        return f"{self.bus.prefix}.baseline"

    def product(
        self,
        in_flight: int,
        *,
        workers: int = 1,
        forked: bool = False,
        each: bool = False,
        agents: str = "",
        profile: str = "",
        launcher: tuple[str, ...] = ("-m", "services.cli"),
        version: str = "",
        **worker: Any,
    ) -> Contestant:
        """Start workers; `forked`: one command with that many processes, if it can do that.

        `each`: so many calls for each worker, and not for the whole group. `agents` are tables of
        the settings, `profile` lines of the profile's. `version`: one of the rig's, not this one.
        """
        options: list[str] = []
        if forked and workers > 1:
            if can_fork():
                options, workers = ["--processes", str(workers)], 1
            else:
                in_flight //= workers
        if each:
            profile += 'scope = "worker"\n'
        config = self.config(in_flight, worker, profile + agents)
        command = [sys.executable, *launcher, "worker", "--config", str(config), *options]
        variables = variables_of(self.rig.trees[version]) if version else {}
        processes = [self.start("worker", command, "health at", variables) for _ in range(workers)]
        return Contestant("product", processes)

    def baseline(self, in_flight: int, sdk: str = "adapter") -> Contestant:
        """Start the loop that promises nothing."""
        bus = self.bus
        command = [sys.executable, "-m", "tests.benchmarks.baseline", "--sdk", sdk]
        command += ["--bootstrap", bus.bootstrap, "--requests", bus.topic(REQUESTS)]
        command += ["--results", self.baseline_results, "--group", f"{bus.prefix}.{sdk}"]
        command += ["--base-url", self.rig.base_url, "--in-flight", str(in_flight)]
        return Contestant(f"baseline, {sdk}", [self.start("baseline", command, "ready")])

    def config(self, in_flight: int, worker: dict[str, Any], agents: str = "") -> Path:
        """A settings file of its own."""
        profile = (
            f'[profiles.default]\nprovider = "openai"\nmodel = "stub"\nshow_schema = false\n'
            f'base_url = "{self.rig.base_url}"\nmax_in_flight = {in_flight}\n'
        )
        self.bus.folder = self.rig.folder / f"{self.bus.prefix}-{len(self.processes)}"
        self.bus.folder.mkdir()
        return self.bus.settings(profile + agents, {"max_in_flight": in_flight, **worker})

    def start(
        self, name: str, command: list[str], ready: str, variables: Mapping[str, str] = {}
    ) -> ServerProcess:
        """Start a process, and wait until its log has what says that it is ready."""
        log = self.rig.folder / f"{self.bus.prefix}-{name}-{len(self.processes)}.log"
        process = ServerProcess.start(command, log, "", {**self.rig.environment, **variables})
        self.processes.append(process)
        self.rig.stack.callback(end, process)
        process.wait_until(lambda: ready in log.read_text(errors="replace"), START_LIMIT_S)
        return process


Start = Callable[[Field], Contestant]


@dataclass
class Rig:
    """What all trials of a run share."""

    folder: Path
    seed: int
    console: Console
    match: str = ""  # an expression: trials without it in their names are left out
    is_tls: bool = False  # whether contestants ask the stub over TLS
    versions: Sequence[str] = ()  # of the history, which are measured beside this one
    trees: dict[str, Path] = field(default_factory=dict)  # of these versions, by their names
    stack: ExitStack = field(default_factory=ExitStack)
    trials: int = 0

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    @property
    def environment(self) -> dict[str, str]:
        inherited = os.environ.items()  # noqa: TID251 - all but settings
        kept = {name: value for name, value in inherited if not name.startswith("ANSWERBUS_")}
        return {**kept, "SSL_CERT_FILE": str(self.authority.file)} if self.is_tls else kept

    @property
    def base_url(self) -> str:
        """Where contestants ask."""
        return self.stub.tls_url if self.is_tls else self.stub.base_url

    def field(
        self,
        partitions: int = PARTITIONS,
        *,
        baseline: bool = False,
        topics: Sequence[Topic] = TOPICS,
    ) -> Field:
        """New topics."""
        self.trials += 1
        prefix = f"bench-{self.trials}"
        bus = Bus(self.broker.bootstrap_servers, prefix, partitions, self.folder)
        asyncio.run(create_topics(bus, topics=topics))
        if baseline:
            asyncio.run(_create(bus, f"{prefix}.baseline"))
        return Field(self, bus, Upstream(bus.bootstrap, bus.topic(REQUESTS), partitions))

    def products(self, in_flight: int) -> dict[str, Start]:
        """How one process of this version is started, and one of each out of the history."""

        def start(version: str) -> Start:
            return lambda field: field.product(in_flight, version=version)

        return {"product": start("")} | {f"product at {name}": start(name) for name in self.trees}

    def begin(
        self, latency: Latency, plan: Plan | None = None, prices: Prices | None = None
    ) -> Path:
        """A new journal of the stub, which answers like this from now on."""
        self._journal = self.folder / f"calls-{self.trials}-{time.monotonic_ns()}.tsv"
        self.stub.tell(**beginning(self._journal, latency, self.seed, plan, prices))
        return self._journal

    def calls(self) -> list[Call]:
        """All calls since `begin` that are over."""
        self.stub.tell(do="flush")
        return read(self._journal)

    def wants(self, trial: str) -> bool:
        """Whether a trial of this name is to be made; says so."""
        if not re.search(self.match, trial):
            return False
        self.say(trial)
        return True

    def say(self, text: str) -> None:
        self.console.print(f"{time.strftime('%H:%M:%S')}  {text}", markup=False)

    def wait(
        self, true: Callable[[], bool], what: str, limit_s: float, step_s: float = 0.1
    ) -> None:
        """Until a condition holds; RuntimeError after the limit."""
        deadline = time.monotonic() + limit_s
        while not true():
            if time.monotonic() > deadline:
                raise RuntimeError(f"in {limit_s:g} s not: {what}")
            time.sleep(step_s)

    def _begin(self) -> None:
        self.trees = {name: tree_of(name, self.folder / name) for name in self.versions}
        self.say("starting the broker")
        self.broker = start_broker(self.folder / "kafka")
        self.stack.callback(self.broker.stop)
        self.authority = Authority(self.folder / "tls", "trusted")
        port, tls_port, control = free_ports(3)
        command = [sys.executable, "-m", "tests.benchmarks.stub"]
        command += ["--port", str(port), "--control", str(control), "--tls-port", str(tls_port)]
        command += ["--certificate", str(self.authority.signs("stub").both)]
        process = ServerProcess.start(command, self.folder / "stub.log", f"--port {port}")
        self.stack.callback(end, process)
        process.wait_until(lambda: _listens(control), START_LIMIT_S)
        urls = f"http://{LOOPBACK}:{port}/v1", f"https://{LOOPBACK}:{tls_port}/v1"
        self.stub = StubProcess(process, control, *urls)


def end(process: ServerProcess) -> None:
    """SIGKILL to a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.gone_within(STOP_LIMIT_S)


@cache
def can_fork() -> bool:
    """Whether `answerbus worker` knows `--processes`."""
    command = [sys.executable, "-m", "services.cli", "worker", "--help"]
    return "--processes" in run(command, capture_output=True, text=True, check=True).stdout


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((LOOPBACK, port)) == 0


async def _create(bus: Bus, name: str) -> None:
    from aiokafka.admin import NewTopic  # noqa: PLC0415

    async with kafka_admin(bus.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, bus.partitions, 1)])
