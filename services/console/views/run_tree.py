"""The runs of a workflow as trees under a time axis, with the possible actions; pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from answerbus.call_outcome import CallOutcome
from services.console.views.run_waits import wait_text, waits
from services.console.views.scale import Tick
from services.console.views.stretches import MS, BarKind, Stretch
from services.console.views.time_axis import TimeAxis
from services.console.views.units import duration
from services.console.views.waterfall import Bar, bar_of
from services.operators.records.decoded import DecodedRecord
from services.operators.records.within_limits import moved
from services.operators.runs.fold import RunFold
from services.operators.runs.run_words import (
    STATES,
    call_text,
    outcome_text,
    run_text,
    step_text,
)
from services.operators.runs.tree import Awaited, CallNode, RunNode, StepNode

LINES_SHOWN = 16  # of one tree, beside its first line; those before them are folded away
LONG_SHARE = 0.05  # of the whole time: lines that take longer are not folded away
LONG_SHOWN = 8  # of those
LINES_DRAWN = 300  # of one tree, the newest; those before them are in words alone


@dataclass(frozen=True, slots=True)
class RunLine:
    """One node; `awaits` if it is a call that awaits a person, `open_id` if a run is open."""

    depth: int
    kind: str
    text: str
    bars: tuple[Bar, ...] = ()
    awaits: Awaited | None = None
    open_id: str | None = None


@dataclass(frozen=True, slots=True)
class RunTree:
    """A run and all that it asked: its own line, lines that are folded away, and the newest."""

    head: RunLine
    folded: Sequence[RunLine]
    shown: Sequence[RunLine]
    ticks: tuple[Tick, ...]
    span: str

    @property
    def kinds(self) -> frozenset[BarKind]:
        """Those that the legend names."""
        lines = (self.head, *self.folded, *self.shown)
        return frozenset(bar.kind for line in lines for bar in line.bars)


def trees(
    records: Iterable[DecodedRecord], now: datetime, *, operator: bool
) -> tuple[RunTree, ...]:
    """Of each run that no other run asked, the oldest first; arguments are for operators."""
    fold = RunFold()
    for decoded in records:
        fold.take(decoded.event, decoded.at)
    return tuple(_tree(run, now, operator=operator) for run in fold.runs())


@dataclass(frozen=True, slots=True)
class _Node:
    """A line before there is an axis to draw it on."""

    line: RunLine
    stretches: tuple[Stretch, ...]


def _tree(run: RunNode, now: datetime, *, operator: bool) -> RunTree:
    nodes = list(_nodes(run, 0, now, operator=operator))
    times = [
        at for node in nodes for stretch in node.stretches for at in (stretch.begin, stretch.end)
    ]
    begin, end = min(times, default=now), max(times, default=now)
    axis = TimeAxis(begin, max(end - begin, MS))
    head, *lines = [_drawn(node, axis) for node in nodes]
    not_drawn = max(0, len(lines) - LINES_DRAWN)
    lines[:not_drawn] = [replace(line, bars=()) for line in lines[:not_drawn]]
    kept = _long(nodes[1 : max(0, len(lines) - LINES_SHOWN) + 1], axis.span)
    cut = max(0, len(lines) - LINES_SHOWN + len(kept))
    folded = [line for number, line in enumerate(lines[:cut]) if number not in kept]
    shown = [lines[number] for number in sorted(kept)] + lines[cut:]
    return RunTree(head, folded, shown, axis.ticks, duration(axis.span / MS))


def _long(nodes: Sequence[_Node], span: timedelta) -> Collection[int]:
    """The numbers of the calls and waits that took longest, such as for a person."""
    took = {
        number: sum((one.end - one.begin for one in node.stretches), timedelta())
        for number, node in enumerate(nodes)
        if node.line.kind in ("call", "wait")
    }
    long = sorted((n for n in took if took[n] >= span * LONG_SHARE), key=lambda n: -took[n])
    return set(long[:LONG_SHOWN])


def _nodes(run: RunNode, depth: int, now: datetime, *, operator: bool) -> Iterator[_Node]:
    open_id = None if run.state == "ended" else run.request_id
    line = RunLine(depth, "run", run_text(run), open_id=open_id)
    yield _Node(line, tuple(run_stretches(run, now)))
    waited = waits(run, now) if run.agent else {}
    yield from _waits(waited.get(0, ()), depth + 1)
    for step in run.steps:
        line = RunLine(depth + 1, "step", step_text(step, show_content=operator))
        yield _Node(line, tuple(step_stretches(step)))
        for call in step.calls:
            line = RunLine(
                depth + 2,
                "call",
                call_text(call, show_content=operator),
                awaits=call.awaits,
            )
            yield _Node(line, tuple(call_stretches(call, step, run, now)))
            for child in call.children:
                yield from _nodes(child, depth + 3, now, operator=operator)
        yield from _waits(waited.get(step.n, ()), depth + 1)


def _waits(parts: Sequence[Stretch], depth: int) -> Iterator[_Node]:
    """A row of its own for what a run waited for before its next step."""
    if parts:
        labelled = (_stretch(one.kind, one.begin, one.end, f"waits: {one.label}") for one in parts)
        yield _Node(RunLine(depth, "wait", wait_text(parts)), tuple(labelled))


def _drawn(node: _Node, axis: TimeAxis) -> RunLine:
    return replace(node.line, bars=tuple(bar_of(stretch, axis) for stretch in node.stretches))


def run_stretches(run: RunNode, now: datetime) -> Iterator[Stretch]:
    """From its beginning to its outcome, or until now."""
    if run.began is None:
        return
    kind: BarKind = run.ended_as or "running"
    message = "open" if run.ended_as is None else kind.replace("_", " ")
    yield _stretch(kind, run.began, run.over or now, f"{run.request_id}: {message}")


def step_stretches(step: StepNode) -> Iterator[Stretch]:
    """The attempt whose answer it is."""
    begin = moved(step.at, -(step.took_ms or 0))
    which = f"attempt {step.attempt}" if step.is_asked else "proposals"
    yield _stretch("step", begin, step.at, f"step {step.n}, {which}")


def call_stretches(
    call: CallNode, step: StepNode, run: RunNode, now: datetime
) -> Iterator[Stretch]:
    """It waits for a person if it must, and then runs until it ends."""
    over = run.over
    end, begin = call.ended_at or over or now, step.at
    if call.approval is not None or call.question is not None:
        decided = call.decision.at if call.decision is not None else end
        what = "approval" if call.question is None else "an answer"
        yield _stretch("approval", begin, decided, f"{call.tool}: waits for {what}")
        begin = decided
        if call.decision is None:
            return
    if call.outcome is None:
        state = "runs" if call.status == "called" else STATES[call.status]
        message = "ended" if over else state
        yield _stretch("released" if over else "running", begin, end, f"{call.tool}: {message}")
    else:
        message = outcome_text(call.outcome, show_content=False)
        yield _stretch(_kind(call.outcome), begin, end, f"{call.tool}: {message}")


def _stretch(kind: BarKind, begin: datetime, end: datetime, label: str) -> Stretch:
    """Clocks may disagree: no stretch ends before it begins."""
    end = max(begin, end)
    return Stretch(kind, begin, end, f"{label}, {duration((end - begin) / MS)}")


def _kind(outcome: CallOutcome) -> BarKind:
    """The colour for it: done, rejected or failed."""
    match outcome.kind:
        case "ok":
            return "result"
        case "declined" | "denied" | "cancelled":
            return "refusal"
        case "dead_letter" | "expired" | "timed_out":
            return "dead_letter"
        case "error" | "unknown_tool" | "invalid_args" | "too_large" | "not_run":
            return "failed"
        case other:
            assert_never(other)
