"""Calfkit, LangGraph and DBOS as entrants: processes of an environment of their own."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import run

from tests.benchmarks.agents.acting import Plan
from tests.benchmarks.agents.entrant import Driven, Effect, Load, Task
from tests.benchmarks.agents.kafka_bytes import kafka_bytes
from tests.benchmarks.rig import Contestant, Field
from tests.benchmarks.rivals.postgres import Postgres

SCRIPTS = Path(__file__).parents[1] / "rivals"


class Calfkit:
    """An agent, its tools and a caller, each a process; topics are named after the trial."""

    who = "Calfkit 0.13"

    def __init__(self, python: Path) -> None:
        self._python = python
        self._task = Task(Plan(1))

    def named(self, field: Field, plan: Plan) -> Plan:
        """Tools have topics of the whole broker."""
        return replace(plan, tools=tuple(f"{tool}_{field.bus.prefix}" for tool in plan.tools))

    def prepare(self, field: Field, task: Task) -> None:
        """It provisions its own topics."""
        self._task = task
        _place(field, "effects").touch()

    def servers(self, field: Field) -> Contestant:
        """One process with all tools."""
        return self._start(field, "tools", *self._of_tools(field))

    def workers(self, field: Field) -> Contestant:
        """One process with the agent."""
        base_url = ["--base-url", field.rig.base_url]
        return self._start(field, "agent", *base_url, *self._of_tools(field))

    @contextmanager
    def driving(self, field: Field, load: Load) -> Iterator[Driven]:
        """The caller stays alive through all kills; without it no result is heard."""
        driven, notes = Driven(), _place(field, "notes")
        if load.count:
            self._start(field, "drive", *_load(load), "--notes", str(notes))
        yield driven
        read_notes(notes, driven)

    def written(self, field: Field) -> Mapping[str, int]:
        """All records of topics that have the trial in their name, and of its control plane."""
        names = f"agent.{field.bus.prefix}", f"{field.bus.prefix}.", "tool.", "calf"
        found = (kafka_bytes(field, name) for name in names)
        return {topic: size for each in found for topic, size in each.items()}

    def effects(self, field: Field) -> list[Effect]:
        """As the tool noted them."""
        return [Effect.of_line(line) for line in _place(field, "effects").read_text().splitlines()]

    def _of_tools(self, field: Field) -> list[str]:
        size = ["--result-bytes", str(self._task.result_bytes)]
        return [*size, "--effects", str(_place(field, "effects"))]

    def _start(self, field: Field, part: str, *options: str) -> Contestant:
        command = [str(self._python), str(SCRIPTS / "calfkit_agent.py"), part]
        command += ["--bootstrap", field.bus.bootstrap, "--name", field.bus.prefix, *options]
        return Contestant(self.who, [field.start(f"calfkit-{part}", command, "ready")])


class InProcess:
    """One process that holds the runs, calls the tools itself, and writes to PostgreSQL."""

    def __init__(self, who: str, script: str, python: Path, database: Postgres) -> None:
        self.who, self._script = who, script
        self._python, self._database = python, database
        self._task, self._load = Task(Plan(1)), Load(0)
        self._wal_at = 0

    def named(self, field: Field, plan: Plan) -> Plan:
        """Runs are named after the trial, and nothing else is."""
        del field
        return plan

    def prepare(self, field: Field, task: Task) -> None:
        """Its tables, which it makes itself, are not written for the runs."""
        self._task = task
        _place(field, "effects").touch()
        run([*self._command(field), "--prepare"], check=True)
        self._wal_at = self._database.wal_bytes()

    def servers(self, field: Field) -> None:
        """Tools are called in its own process."""
        del field

    def workers(self, field: Field) -> Contestant:
        """It goes on with what the notes of the trial say is open."""
        command = [*self._command(field), *_load(self._load)]
        command += ["--result-bytes", str(self._task.result_bytes)]
        command += ["--effects", str(_place(field, "effects"))]
        command += ["--notes", str(_place(field, "notes"))]
        return Contestant(self.who, [field.start(Path(self._script).stem, command, "ready")])

    @contextmanager
    def driving(self, field: Field, load: Load) -> Iterator[Driven]:
        """It starts its runs itself."""
        self._load, driven = load, Driven()
        yield driven
        read_notes(_place(field, "notes"), driven)

    def written(self, field: Field) -> Mapping[str, int]:
        """What the database wrote to its log."""
        del field
        return {"wal": self._database.wal_bytes() - self._wal_at}

    def effects(self, field: Field) -> list[Effect]:
        """As the tool noted them."""
        return [Effect.of_line(line) for line in _place(field, "effects").read_text().splitlines()]

    def _command(self, field: Field) -> list[str]:
        command = [str(self._python), str(SCRIPTS / self._script)]
        command += ["--database", self._database.url, "--name", field.bus.prefix]
        return [*command, "--base-url", field.rig.base_url]


def _place(field: Field, name: str) -> Path:
    return field.rig.folder / f"{field.bus.prefix}-{name}"


def _load(load: Load) -> list[str]:
    options = ["--count", str(load.count)]
    options += ["--open", str(load.open)] if load.open else []
    return options + (["--per-s", str(load.per_s)] if load.per_s else [])


def read_notes(notes: Path, driven: Driven) -> None:
    """What the caller noted; a line that a kill cut short is left out."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    ends = 0
    started: set[str] = set()
    for line in lines:
        if not line.endswith("}"):
            continue
        noted = json.loads(line)
        if "ended" in noted:
            ends += 1
            driven.ended_at.setdefault(noted["ended"], noted["at"])
        elif "started" in noted:
            started.add(noted["started"])
    driven.started, driven.doubled = len(started), ends - len(driven.ended_at)
