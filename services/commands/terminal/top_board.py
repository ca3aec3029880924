"""The board of `answerbus top`, for a terminal and as JSON data; pure."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from services.console.figures.contract_rows import ContractRow, contract_rows
from services.console.figures.outcome_charts import ENDINGS, endings_of
from services.console.state.board import Window
from services.console.state.minute import ProfileCounts
from services.console.state.schema_labels import SchemaLabels
from services.console.views.lane_grid import LaneCell
from services.console.views.status import BusStatus, Level, StatusFacts, bus_status
from services.console.views.units import duration, share, short, usd
from services.operators.dead_letters.why import why_text, without_path

MINUTES = 15
BAR_CELLS = 24
NARROW_BAR_CELLS = 8
WIDE_COLUMNS = 100
WHYS_SHOWN = 5
_ENDING_STYLES: Mapping[str, str] = {
    "first": "green",
    "mended": "cyan",
    "unvalidated": "yellow",
    "refused": "magenta",
    "dead": "red",
}
_AGE_STYLES = ("dim", "green", "yellow", "dark_orange", "bold red")
_LEVEL_STYLES: Mapping[Level, str] = {
    "green": "bold green",
    "amber": "bold yellow",
    "red": "bold red",
}
_BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class TopFacts:
    """The state at one moment; `status` is the console's.

    `open_letters` counts by why they died; `unhealthy` is why, by profile.
    """

    window: Window
    labels: SchemaLabels
    lanes: Sequence[LaneCell] = ()
    lag: int | None = None
    in_flight: int = 0
    retries_waiting: int = 0
    open_dead_letters: Counter[str] = field(default_factory=Counter)
    unhealthy: Mapping[str, str] = field(default_factory=dict)
    status: BusStatus = field(default_factory=lambda: bus_status(StatusFacts(0)))


def as_data(facts: TopFacts) -> Mapping[str, object]:
    total = facts.window.total
    return {
        "status": facts.status.level,
        "reasons": [finding.text for finding in facts.status.findings if finding.level != "green"],
        "minutes": MINUTES,
        "lag": facts.lag,
        "in_flight": facts.in_flight,
        "retries_waiting": facts.retries_waiting,
        "outcomes": dict(endings_of(total)),
        "calls": total.spent.calls,
        "micro_usd": total.spent.micro_usd,
        "charged_micro_usd": total.spent.charged_micro_usd,
        "profiles": {
            name: {
                "calls": counts.made,
                "answered": counts.answered,
                "p50_ms": counts.took.quantile_ms(0.5),
                "p95_ms": counts.took.quantile_ms(0.95),
                "unhealthy": facts.unhealthy.get(name),
            }
            for name, counts in _profiles(facts)
        },
        "lanes": [
            {
                "lane": lane.partition,
                "lag": lane.lag,
                "oldest_ms": lane.age_ms,
                "state": lane.state,
                "halt": lane.halt,
                "why": lane.why,
                "waits_for": lane.waits_for,
            }
            for lane in facts.lanes
        ],
        "open_letters": dict(_without_paths(facts.open_dead_letters)),
    }


def board_of(facts: TopFacts) -> RenderableType:
    parts: list[RenderableType] = [*_status(facts), _numbers(facts)]
    rows = contract_rows(facts.window.total, facts.labels, ())
    if rows:
        parts.append(_contracts(rows))
    if profiles := _profiles(facts):
        parts.append(_profile_table(profiles, facts))
    if facts.lanes:
        parts.append(_lanes(facts.lanes))
    if facts.open_dead_letters:
        parts.append(_dead_letters(facts.open_dead_letters))
    return Group(*parts)


def bar(counts: Mapping[str, int], cells: int = BAR_CELLS) -> Text:
    """A whole and its parts as coloured cells; what is there is seen, however few."""
    whole, drawn = sum(counts.values()), Text()
    if not whole:
        return Text("·" * cells, "dim")
    left = cells
    for name, count in sorted(counts.items(), key=lambda pair: pair[1]):
        size = min(left, max(1, round(cells * count / whole))) if count else 0
        left -= size
        drawn = Text.assemble(("█" * size, _ENDING_STYLES[name]), drawn)
    largest = max(counts, key=lambda name: counts[name])
    return Text.assemble(("█" * left, _ENDING_STYLES[largest]), drawn)


def course(values: Sequence[float]) -> str:
    """A row of values as blocks."""
    top, most = max(values, default=0) or 1, len(_BLOCKS) - 1
    return "".join(_BLOCKS[math.ceil(most * value / top)] for value in values)


@dataclass(frozen=True, slots=True)
class _Bar:
    """As wide as there is room for."""

    counts: Mapping[str, int]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield bar(self.counts, min(BAR_CELLS, options.max_width))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        cells = BAR_CELLS if options.max_width >= WIDE_COLUMNS else NARROW_BAR_CELLS
        return Measurement(min(len(self.counts), options.max_width), cells)


def _status(facts: TopFacts) -> Iterator[Text]:
    """Each finding, the worst first, with the words of its sources."""
    for found in facts.status.findings:
        yield Text(f"● {found.text}", _LEVEL_STYLES[found.level])
        yield from (Text(f"  {why}", "dim") for why in found.whys)


def _numbers(facts: TopFacts) -> Text:
    total, steps = facts.window.total, facts.window.steps
    lag = "unknown" if facts.lag is None else f"{facts.lag:,}"
    return Text.assemble(
        *("waiting ", (lag, "bold"), f"  in flight {facts.in_flight:,}"),
        *(f"  retries {facts.retries_waiting:,}", "  ended ", (f"{_ended(facts):,}", "bold")),
        *(f" {course([sum(endings_of(step).values()) for step in steps])}",),
        *(f"  used {usd(total.spent.micro_usd)}", f"  tokens {short(total.spent.tokens)}"),
    )


def _contracts(rows: Sequence[ContractRow]) -> Table:
    seen = [name for name in ENDINGS if any(row.counts[name] for row in rows)]
    table = _table("contract", *(ENDINGS[name] for name in seen), "p50", "p95", "used", bar=True)
    for row in rows:
        counts = [str(row.counts[name]) for name in seen]
        times = [duration(row.p50_ms), duration(row.p95_ms)]
        table.add_row(row.label, _Bar(row.counts), *counts, *times, usd(row.spent.micro_usd))
    return table


def _profile_table(profiles: Sequence[tuple[str, ProfileCounts]], facts: TopFacts) -> Table:
    table = _table("profile", "calls", "replied", "p50", "p95", "calls a minute")
    for name, counts in profiles:
        steps = [step.profiles.get(name) for step in facts.window.steps]
        made = course([one.made if one else 0 for one in steps])
        times = (duration(counts.took.quantile_ms(share)) for share in (0.5, 0.95))
        style = "red" if name in facts.unhealthy else ""
        answered = share(counts.answered, counts.made)
        table.add_row(Text(name, style), f"{counts.made:,}", answered, *times, made)
    return table


def _lanes(lanes: Sequence[LaneCell]) -> Text:
    cells = [(f" {lane.partition}:{lane.short} ", _lane_style(lane)) for lane in lanes]
    return Text.assemble(("lanes, age of the oldest request ", "bold"), *cells)


def _lane_style(lane: LaneCell) -> str:
    """A lane that waits for a profile is not to be taken for one that is stopped itself."""
    match lane.halt:
        case "stuck" | "no-worker":
            return "bold reverse red"
        case "away":
            return "magenta"
        case None:
            return _AGE_STYLES[lane.level]


def _dead_letters(dead_letters: Counter[str]) -> Text:
    shown = dead_letters.most_common(WHYS_SHOWN)
    named = [f"{n:,} × {why_text(why)}" for why, n in shown]
    if more := dead_letters.total() - sum(n for _, n in shown):
        named.append(f"{more:,} for other reasons")
    return Text.assemble(
        (f"open dead letters {dead_letters.total():,}: ", "bold red"), ", ".join(named)
    )


def _without_paths(dead_letters: Counter[str]) -> Counter[str]:
    """Few keys for programs: paths have numbers of places in lists."""
    found = Counter[str]()
    for why, count in dead_letters.items():
        found[without_path(why)] += count
    return found


def _table(first: str, *others: str, bar: bool = False) -> Table:
    """On a narrow terminal the bar becomes shorter, then the names; figures stay whole."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(first, style="bold", overflow="ellipsis")
    if bar:
        table.add_column("")
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _profiles(facts: TopFacts) -> list[tuple[str, ProfileCounts]]:
    found = dict(facts.window.total.profiles)
    for name in facts.unhealthy:
        found.setdefault(name, ProfileCounts())
    return sorted(found.items(), key=lambda pair: (-pair[1].made, pair[0]))


def _ended(facts: TopFacts) -> int:
    return sum(endings_of(facts.window.total).values())
