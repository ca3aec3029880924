"""The runs of a workflow as trees under a time axis, with the possible actions; pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from answerbus.control import ApprovalRequested
from services.console.views.run_stretches import call_stretches, run_stretches, step_stretches
from services.console.views.scale import Tick
from services.console.views.stretches import MS, BarKind, Stretch
from services.console.views.time_axis import TimeAxis
from services.console.views.units import duration
from services.console.views.waterfall import Bar, bar_of
from services.operators.records.decoded import DecodedRecord
from services.operators.runs.fold import RunFold
from services.operators.runs.run_words import call_text, run_text, step_text
from services.operators.runs.tree import RunNode

LINES_SHOWN = 16  # of one tree, beside its first line; those before them are folded away
LINES_DRAWN = 300  # of one tree, the newest; those before them are told in words alone


@dataclass(frozen=True, slots=True)
class RunLine:
    """One node; `awaits` if it is a call that awaits approval, `open_id` if a run is open."""

    depth: int
    kind: str
    text: str
    bars: tuple[Bar, ...] = ()
    awaits: ApprovalRequested | None = None
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
    cut = max(0, len(lines) - LINES_SHOWN)
    return RunTree(head, lines[:cut], lines[cut:], axis.ticks, duration(axis.span / MS))


def _nodes(run: RunNode, depth: int, now: datetime, *, operator: bool) -> Iterator[_Node]:
    open_id = None if run.state == "ended" else run.request_id
    line = RunLine(depth, "run", run_text(run, UTC), open_id=open_id)
    yield _Node(line, tuple(run_stretches(run, now)))
    for step in run.steps:
        line = RunLine(depth + 1, "step", step_text(step, show_content=operator))
        yield _Node(line, tuple(step_stretches(step)))
        for call in step.calls:
            requested = call.approval if call.status == "awaits_approval" else None
            line = RunLine(
                depth + 2,
                "call",
                call_text(call, show_content=operator),
                awaits=requested,
            )
            yield _Node(line, tuple(call_stretches(call, step, run, now)))
            for child in call.children:
                yield from _nodes(child, depth + 3, now, operator=operator)


def _drawn(node: _Node, axis: TimeAxis) -> RunLine:
    return replace(node.line, bars=tuple(bar_of(stretch, axis) for stretch in node.stretches))
