"""One run: broker, fleet, traffic and faults, from the first record to the audit."""

import asyncio
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from infra.kafka import Cluster
from services.worker.adapters.kafka.subscription import HEARTBEAT_MS_MAX
from tests.benchmarks.next_rebalance.heartbeats import heartbeats
from tests.chaos import namesakes, script, strangers
from tests.chaos.agents import Agents
from tests.chaos.audit import latency
from tests.chaos.audit.history import History
from tests.chaos.audit.reading import read_history
from tests.chaos.auditor import audit, summary
from tests.chaos.conditions import Hostile, Ordinary
from tests.chaos.costly import answers, costly
from tests.chaos.faults import faults
from tests.chaos.fleet import NEXT_WORKER, WORKER, Fleet
from tests.chaos.garbage import garbage
from tests.chaos.stage import Stage
from tests.chaos.toolset import DIES_VARIABLE
from tests.chaos.traffic import Publisher, Watcher
from tests.chaos.workload import Workload, workload
from tests.integration.bus import Bus, create_topics

PREFIX = "chaos"
JOURNAL = "calls.jsonl"
SESSION_S = 6.0  # the least that a broker allows by default
TICK_S = 0.05
START_LIMIT_S = 180.0  # on a busy machine a program needs a minute before its first line
ASK_S = 1.0  # between two looks at the group's offsets
TELL_S = 5.0
QUIET_S = 10.0  # without an outcome, after the last fault: a session has ended, lanes caught up
RUNS_MIN = 20
RUN_SEEDS = 1_000_000  # above those of other requests: no id and no workflow is of both
GARBAGE_SHARE = 0.15  # of the requests of a hostile run: as many batches of garbage


@dataclass(frozen=True, slots=True)
class Size:
    """How much, how long it is disturbed, and when it is given up."""

    requests: int
    workflows: int
    workers: int
    window_s: float
    limit_s: float
    partitions: int = 12
    brokers: int = 1
    hostile: bool = False
    calm_s: float = 0.0  # after the faults: then good requests are timed, and costly ones go on
    tool_servers: int = 0
    runs: float = 0.0  # of an agent: 1 for all requests, or a share beside them
    dies_one_in: int = 0  # calls of what may run once: after its effect, and before its reply
    next_rebalance: bool = False  # workers read by the prototype on KIP-848

    @property
    def lasting_s(self) -> float:
        """How long there is traffic."""
        return self.window_s + self.calm_s - SESSION_S


def asked(seed: int, size: Size) -> Workload:
    """What good publishers ask for. Runs beside the rest come before the calm: they take long."""
    of = partial(workload, partitions=size.partitions)
    count = size.requests, size.workflows
    if size.runs == 1:
        return of(seed, *count, lasting_s=size.lasting_s, with_agents=True)
    calm_from_s = size.window_s if size.calm_s else math.inf
    load = of(seed, *count, lasting_s=size.lasting_s, calm_from_s=calm_from_s)
    if not size.runs:
        return load
    runs = max(RUNS_MIN, round(size.requests * size.runs))
    lasting_s = size.window_s - SESSION_S
    return load.beside(of(seed + RUN_SEEDS, runs, runs, lasting_s=lasting_s, with_agents=True))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to; it is fine if nothing is missing, broken or violated."""

    seed: int
    took_s: float
    summary: str
    faults: dict[str, int]
    kinds: dict[str, int]
    missing: list[str]
    bugs: list[str]
    violations: list[str]
    late: list[str] = field(default_factory=list)
    p95_s: float | None = None  # of good requests in the calm

    @property
    def is_fine(self) -> bool:
        return not any(self.complaints().values())

    def complaints(self) -> dict[str, list[str]]:
        """All that is wrong, by what it is."""
        return {
            "missing": self.missing,
            "bug": self.bugs,
            "violation": self.violations,
            "late": self.late,
        }

    def as_json(self) -> dict[str, Any]:
        figures = {"seed": self.seed, "took_s": round(self.took_s, 1), "fine": self.is_fine}
        return {
            **figures,
            "summary": self.summary,
            "faults": self.faults,
            "kinds": self.kinds,
            "p95_s": self.p95_s,
            **self.complaints(),
        }


class Chaos:
    """See the module; `folder` is for the broker's data, logs, script and journal."""

    def __init__(self, seed: int, size: Size, folder: Path, console: Console) -> None:
        self._seed, self._size, self._folder, self._console = seed, size, folder, console
        self._agents: Agents | None = None
        self._began, self._began_at = time.monotonic(), _now()
        self._over_at_s = 0.0  # when the last fault was
        self._ended, self._ended_at_s = 0, 0.0  # so many outcomes, the last of them then
        self._calm_at_s: float | None = None

    def run(self) -> Outcome:
        """Raises SetupError if there can be no broker."""
        size = self._size
        load = asked(self._seed, size)
        if size.hostile:
            load = load.beside(costly(self._seed, size.requests, size.partitions, size.lasting_s))
            load = load.beside(namesakes.namesakes(self._seed, size.partitions, size.lasting_s))
        if size.tool_servers:
            load = load.beside(strangers.resumed(self._seed, size.partitions, size.lasting_s))
        around = self._conditions()
        cluster, config = around.cluster, self._config(around.kafka())
        worker = NEXT_WORKER if size.next_rebalance else WORKER
        fleet = Fleet(config, self._folder, around.environment, command=worker)
        if size.tool_servers:
            variables = {**around.variables, DIES_VARIABLE: str(size.dies_one_in)}
            self._agents = Agents(config, self._folder, size.tool_servers, variables)
        stage = Stage(fleet, cluster, self._say, self._agents.fleet if self._agents else None)
        try:
            cluster.start()
            bus = Bus(cluster.bootstrap_servers, PREFIX, size.partitions, self._folder)
            asyncio.run(create_topics(bus, size.brokers))
            stage.grips = around.prepare()
            if self._agents:
                self._agents.begin(bus, size.brokers)
            self._start(fleet)
            stage.schedule(
                faults(
                    self._seed,
                    size.workers,
                    SESSION_S,
                    size.window_s,
                    size.brokers,
                    hostile=size.hostile,
                    tools=size.tool_servers if size.runs == 1 else 0,
                )
            )
            return self._judge(load, stage, around, self._play(load, stage, around))
        finally:
            for each in stage.fleets:
                each.kill()
            if self._agents:
                self._agents.close()
            around.close()
            stage.close()

    def _conditions(self) -> Ordinary:
        size = self._size
        if not size.hostile:
            hears = heartbeats(HEARTBEAT_MS_MAX, round(SESSION_S * 1000))  # as today's members do
            return Ordinary(Cluster(self._folder, size.brokers, properties=hears))
        count = round(size.requests * GARBAGE_SHARE)
        planned = garbage(self._seed, count, size.partitions, size.lasting_s)
        return Hostile(self._seed, self._folder, size.brokers, PREFIX, size.partitions, planned)

    def _start(self, fleet: Fleet) -> None:
        for slot in range(self._size.workers):
            fleet.start(slot)
        limit = time.monotonic() + START_LIMIT_S
        while not fleet.all_ready() and time.monotonic() < limit:
            time.sleep(TICK_S)  # a late one is waited for no longer; it may still come

    def _play(self, load: Workload, stage: Stage, around: Ordinary) -> Watcher:
        """Let it all happen, until everything is answered and read, or time is up."""
        bootstrap = stage.cluster.bootstrap_servers
        publisher = Publisher(bootstrap, PREFIX, load.publications)
        reads_requests = not self._size.hostile
        watcher = Watcher(bootstrap, PREFIX, self._size.partitions, reads_requests=reads_requests)
        began = self._began = time.monotonic()
        self._began_at = _now()
        asked = reported = 0.0
        while (now := time.monotonic() - began) < self._size.limit_s:
            stage.play(now)
            if self._calm_at_s is None and self._is_calm(now, stage, len(watcher.ended)):
                self._calm_at_s = now
                self._say(f"calm, {now - self._over_at_s:.0f} s after the last fault")
                around.calm()
            publisher.publish_due(self._planned_s(now))
            around.produce_due(self._planned_s(now))
            watcher.look(TICK_S)
            if self._agents:
                self._agents.look(now)
            if now - reported > TELL_S:
                reported = now
                self._say(f"{publisher.delivered} published, {len(watcher.ended)} ended")
            is_out = publisher.is_done and around.is_done
            settled = stage.is_over and is_out and watcher.dead_letters >= load.dead_letters
            if settled and now - asked > ASK_S and not watcher.missing(load.request_ids):
                asked = now
                unread = watcher.unread(around.requests())
                if unread == []:
                    break
                self._say(f"all ended; not read to their ends: partitions {unread}")
        watcher.close()
        return watcher

    def _is_calm(self, now_s: float, stage: Stage, ended: int) -> bool:
        """Once what was published under faults has ended: good requests are timed after that."""
        if not self._size.calm_s:
            return now_s >= self._size.window_s
        if now_s < self._size.window_s or not stage.is_over:
            self._over_at_s = now_s
        if ended != self._ended or self._over_at_s == now_s:
            self._ended, self._ended_at_s = ended, now_s
        return now_s - self._ended_at_s >= QUIET_S

    def _planned_s(self, now_s: float) -> float:
        """The time by which traffic is planned: it stands still until the calm begins."""
        if self._calm_at_s is None:
            return min(now_s, self._size.window_s)
        return now_s - self._calm_at_s + self._size.window_s

    def _judge(self, load: Workload, stage: Stage, around: Ordinary, watcher: Watcher) -> Outcome:
        missing = watcher.missing(load.request_ids)
        if not self._size.hostile and watcher.dead_letters != load.dead_letters:
            missing.append(
                f"{watcher.dead_letters} letters about records instead of {load.dead_letters}"
            )
        if missing:
            self._say("what the workers wait for stands in their logs")
            stage.fleet.tell_tasks()
            time.sleep(TELL_S)
        fleets = stage.fleets
        bugs = [
            f"a {fleet.name} did not end after SIGTERM" for fleet in fleets if not fleet.drain()
        ]
        self._say("auditing")
        servers, requests = around.cluster.bootstrap_servers, around.requests()
        journal, deeds = self._folder / JOURNAL, self._agents.deeds if self._agents else None
        history = read_history(servers, PREFIX, journal, requests=requests, deeds=deeds)
        others = namesakes.without(history)
        late, p95_s = self._timed(others)
        return Outcome(
            seed=self._seed,
            took_s=time.monotonic() - self._began,
            summary=summary(others) + around.summary(),
            faults=stage.begun,
            kinds=dict(watcher.kinds.most_common()),
            missing=missing,
            bugs=bugs + [bug for fleet in fleets for bug in fleet.bugs()],
            violations=[
                str(found)
                for found in (
                    *audit(others),
                    *around.check(others),
                    *strangers.check(others),
                    *namesakes.check(history),
                )
            ],
            late=late,
            p95_s=p95_s,
        )

    def _timed(self, history: History) -> tuple[list[str], float | None]:
        """The good requests of the calm."""
        if not self._size.calm_s:
            return [], None
        if self._calm_at_s is None:
            return ["the faults did not end"], None
        calm_at = self._began_at + timedelta(seconds=self._calm_at_s)
        until = calm_at + timedelta(seconds=self._size.calm_s - SESSION_S)
        times = latency.took(history, calm_at, until, script.is_good)
        if not times:
            return ["no good request was published in the calm"], None
        p95 = latency.percentile(times, 0.95)
        shares = {"half": 0.5, "95 %": 0.95, "all": 1.0}
        within = (
            f"{name} within {latency.percentile(times, share).total_seconds():.2f} s"
            for name, share in shares.items()
        )
        self._say(f"{len(times)} good requests in the calm: {', '.join(within)}")
        late = p95 > latency.P95_MAX
        text = f"95 % of {len(times)} good requests ended only within {p95.total_seconds():.2f} s"
        return [text] if late else [], p95.total_seconds()

    def _config(self, kafka: Mapping[str, str]) -> Path:
        """A settings file with little room, so that lanes pause, and little patience."""
        played = self._folder / "script.json"
        dear = answers() if self._size.hostile else ()
        played.write_text(json.dumps({"rules": script.rules(self._seed, dear)}))
        profiles = "".join(
            f'[profiles.{name}]\nprovider = "scripted"\nscript = "{played}"\n'
            f'journal = "{self._folder / JOURNAL}"\n'
            f'dialect = "prompted"\ntimeout_s = {script.TIMEOUT_S}\n{script.then_of(name)}'
            for name in script.PROFILES
        )
        way_in = "".join(f'{name} = "{value}"\n' for name, value in kafka.items())
        path = self._folder / "answerbus.toml"
        path.write_text(
            f'[kafka]\n{way_in}topic_prefix = "{PREFIX}"\n'
            f"session_timeout_ms = {SESSION_S * 1000:.0f}\nrebalance_timeout_ms = 10000\n"
            '[worker]\nhealth = "127.0.0.1:0"\nmax_in_flight = 100\nlane_requests_max = 40\n'
            f"retry_first_s = 0.05\nretry_max_s = 1.0\ndrain_s = 5.0\n{profiles}"
            + (
                script.agent_toml(asks_on=self._size.dies_one_in > 0)
                if self._size.tool_servers
                else ""
            )
        )
        return path

    def _say(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._began:6.1f} s  {text}", markup=False)


def _now() -> datetime:
    """The brokers' clock is this machine's."""
    return datetime.now(UTC)  # noqa: TID251 - see above
