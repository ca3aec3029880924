"""Outcomes, dead letters and spend over time, from the board's window; pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from services.console.figures.dead_letter_links import Span, dead_letters, letters_of_problem
from services.console.state.board import Window
from services.console.state.minute import ContractCounts, Minute
from services.console.views.chart import Axis, Chart, columns
from services.console.views.links import address
from services.console.views.units import MINUTE_MS
from services.operators.dead_letters.why import kind_text

ENDINGS: Mapping[str, str] = {
    "first": "first try",
    "mended": "retried",
    "unvalidated": "unvalidated",
    "refused": "refused",
    "dead": "dead",
}
PROBLEMS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A series of a chart: its colour, its name, how much of it there is."""

    series: str
    name: str
    count: int
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its legend."""

    chart: Chart
    legend: tuple[LegendEntry, ...]


def axis_of(window: Window, path: str) -> Axis:
    """The steps of the window; a click on one leads to the page about this time alone."""
    step_ms = window.step_minutes * MINUTE_MS
    return Axis(window.starts_ms, step_ms, lambda span: address(path, span))


def endings_of(minute: Minute) -> Mapping[str, int]:
    """How many requests ended in each way, of all contracts."""
    total = ContractCounts()
    for counts in minute.contracts.values():
        total.first_try += counts.first_try
        total.mended += counts.mended
        total.unvalidated += counts.unvalidated
        total.refused += counts.refused
        total.died.update(counts.died)
    return ending_counts(total)


def ending_counts(counts: ContractCounts) -> Mapping[str, int]:
    """By the names of ENDINGS."""
    values = (counts.first_try, counts.mended, counts.unvalidated, counts.refused, counts.dead)
    return dict(zip(ENDINGS, values, strict=True))


def outcomes_figure(window: Window) -> Figure:
    """The outcomes of requests, as stacked columns."""
    steps = [endings_of(step) for step in window.steps]
    series = {name: [step[name] for step in steps] for name in ENDINGS}
    chart = columns(axis_of(window, "/"), series, words=ENDINGS)
    legend = [LegendEntry(name, ENDINGS[name], sum(series[name])) for name in ENDINGS]
    return Figure(chart, tuple(legend))


def deaths_figure(window: Window, span: Span) -> Figure:
    """Dead letters by why they died, and where some were replayed; a click leads to them."""
    total = _died(window.total)
    shown = [problem for problem, _ in total.most_common(PROBLEMS_SHOWN)]
    steps = [_died(step) for step in window.steps]
    words = {f"cause-{n}": kind_text(problem) for n, problem in enumerate(shown)}
    series = {f"cause-{n}": [step[problem] for step in steps] for n, problem in enumerate(shown)}
    rest = [step.total() - sum(step[problem] for problem in shown) for step in steps]
    if any(rest):
        series["cause-rest"], words["cause-rest"] = rest, "other problems"
    base = axis_of(window, "/letters/list")
    chart = columns(Axis(base.starts_ms, base.step_ms, dead_letters), series, words=words)
    legend = [
        LegendEntry(name, words[name], total[problem], letters_of_problem(span, problem))
        for name, problem in zip(series, shown, strict=False)
    ]
    if any(rest):
        legend.append(LegendEntry("cause-rest", words["cause-rest"], sum(rest)))
    if window.total.replayed:
        legend.append(LegendEntry("replayed", "replayed then", window.total.replayed))
    return Figure(_with_replays(chart, [step.replayed for step in window.steps]), tuple(legend))


def spend_figure(window: Window) -> Figure:
    """Usage of calls, and the part of repairs."""
    spent = [step.spent for step in window.steps]
    repairs = [step.repairs_micro_usd for step in spent]
    first = [step.micro_usd - step.repairs_micro_usd for step in spent]
    words = {"spend": "first calls", "repairs": "repairs"}
    series = {"spend": first, "repairs": repairs}
    chart = columns(axis_of(window, "/money"), series, "usd", words=words)
    legend = [LegendEntry(name, words[name], sum(series[name])) for name in series]
    return Figure(chart, tuple(legend))


def _died(minute: Minute) -> Counter[str]:
    """Dead letters of all contracts by their last failure, or by their cause where none failed."""
    found = Counter[str]()
    for counts in minute.contracts.values():
        found.update(counts.died)
    return found


def _with_replays(chart: Chart, replayed: Sequence[int]) -> Chart:
    marked = tuple(
        replace(column, mark=count, label=f"{column.label}; {count:,} replayed")
        if count
        else column
        for column, count in zip(chart.columns, replayed, strict=True)
    )
    return replace(chart, columns=marked)
