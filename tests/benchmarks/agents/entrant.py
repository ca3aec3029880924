"""Who takes part in the benchmark of agents, and what is asked of it."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from tests.benchmarks.agents.acting import Plan
from tests.benchmarks.arithmetic import Span
from tests.benchmarks.journal import Call
from tests.benchmarks.rig import Contestant, Field

IN_FLIGHT = 1_000  # of the product: nothing waits for a slot


@dataclass(frozen=True, slots=True)
class Load:
    """`count` runs in all: so many `open` at once, or so many a second, however many are open."""

    count: int
    open: int | None = None
    per_s: float | None = None


@dataclass(slots=True)
class Driven:
    """What the caller of the runs saw; complete once the driving is over."""

    started: int = 0
    ended_at: dict[str, float] = field(default_factory=dict)  # by run, on the wall clock
    doubled: int = 0

    @property
    def lost(self) -> int:
        return self.started - len(self.ended_at)


@dataclass(frozen=True, slots=True)
class Effect:
    """A tool's effect: of which run and step, and when."""

    run: str
    number: int
    at: float

    @classmethod
    def of_line(cls, line: str) -> "Effect":
        """As each tool notes it."""
        run, number, at = line.split(" ")
        return cls(run, int(number), float(at))


@dataclass(frozen=True, slots=True)
class Task:
    """What a model does in a trial, and how large the results of its tools are."""

    plan: Plan
    result_bytes: int = 32


class Entrant(Protocol):
    """Workers do the steps. Servers run the tools; None: the workers do that themselves."""

    who: str

    def named(self, field: Field, plan: Plan) -> Plan:
        """The plan, with the names that the tools have here."""
        ...

    def prepare(self, field: Field, task: Task) -> None:
        """What must be there before the workers."""
        ...

    def servers(self, field: Field) -> Contestant | None:
        """Start them."""
        ...

    def workers(self, field: Field) -> Contestant:
        """Start them; after a kill they go on with what was open."""
        ...

    def driving(self, field: Field, load: Load) -> AbstractContextManager[Driven]:
        """Runs are started while the block lasts."""
        ...

    def written(self, field: Field) -> Mapping[str, int]:
        """Bytes that were written for the runs of the trial, by place; its workers have ended."""
        ...

    def effects(self, field: Field) -> list[Effect]:
        """Each time that a tool had its effect."""
        ...


def gaps_ms(calls: list[Call], window: Span | None = None) -> list[float]:
    """Between the answer to one step and the call for the next one of the same run, in ms."""
    return [
        1000 * (after.begin - before.end)
        for before, after in _neighbours(calls)
        if window is None or window.begin <= after.begin < window.end
    ]


def _neighbours(calls: list[Call]) -> Iterator[tuple[Span, Span]]:
    last: dict[str, Span] = {}
    for call in sorted(calls, key=lambda one: one.span.begin):
        if call.request_id in last:
            yield last[call.request_id], call.span
        last[call.request_id] = call.span


def cores_of(used: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Named as figures name them."""
    for party, cores in used.items():
        yield f"cores, {party}", cores
