"""The numbers on top of the overview, each with its course and whether it is in order; pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from services.console.figures.dead_letter_links import Span, dead_letters
from services.console.figures.outcome_charts import endings_of
from services.console.state.board import Window
from services.console.state.histogram import Histogram
from services.console.state.minute import Minute
from services.console.views.lane_grid import LaneCell
from services.console.views.shares import Spark, sparks
from services.console.views.status import DEAD_MIN
from services.console.views.units import Unit, duration, share, text_of, usd

Level = Literal["plain", "good", "warn", "bad"]

AGE_WARN_MS, AGE_BAD_MS = 60_000, 300_000  # of the oldest request that waits
DEAD_WARN, DEAD_BAD = 0.01, 0.05  # of all that ended


@dataclass(frozen=True, slots=True)
class Tile:
    """`change` compares with the same time before; `note` says more in small letters."""

    name: str
    value: str
    level: Level = "plain"
    note: str = ""
    change: str = ""
    course: tuple[Spark, ...] = ()
    series: str = "plain"
    href: str | None = None


def level_of(value: float, warn: float, bad: float) -> Level:
    if value >= bad:
        return "bad"
    return "warn" if value >= warn else "good"


def change_text(now: float, before: float, unit: Unit = "count") -> str:
    """How a value differs from that of the time before, in percent where that says something."""
    if now == before:
        return "unchanged"
    sign = "+" if now > before else "−"
    if before and abs(now - before) / before < 10:
        percent = 100 * abs(now - before) / before
        return f"{sign}{percent:.0f} %" if percent >= 1 else "unchanged"
    return f"{sign}{text_of(abs(now - before), unit)}"


@dataclass(frozen=True, slots=True)
class TileInputs:
    """`before` is the time of the same length before the window, if it is still kept."""

    window: Window
    before: Minute | None
    lanes: Sequence[LaneCell]
    lag: int | None
    in_flight: int
    retries_waiting: int
    open_dead_letters: int
    approval_ages_ms: Sequence[int]  # of the tool calls that await a person
    span: Span


def tiles(inputs: TileInputs) -> list[Tile]:
    """What waits for people, if anything does; what waits, what ended and how, what it cost."""
    return [
        *_approvals(inputs),
        _waiting(inputs),
        _in_flight(inputs),
        _ended(inputs),
        _first_try(inputs),
        _dead(inputs),
        _open_dead_letters(inputs),
        _latency(inputs),
        _spend(inputs),
    ]


def _approvals(inputs: TileInputs) -> Iterator[Tile]:
    ages_ms = inputs.approval_ages_ms
    if ages_ms:
        note = f"the oldest for {duration(max(ages_ms))}"
        yield Tile("Awaiting approval", f"{len(ages_ms):,}", "warn", note, href="/runs")


def _waiting(inputs: TileInputs) -> Tile:
    ages = [lane.age_ms for lane in inputs.lanes if lane.age_ms is not None]
    oldest = max(ages, default=0)
    unknown = "not known yet" if inputs.lag is None else "since when is unknown"
    note = unknown if inputs.lag != 0 else "nothing waits"
    note = f"the oldest for {duration(oldest)}" if oldest else note
    value = "unknown" if inputs.lag is None else f"{inputs.lag:,}"
    level: Level = level_of(oldest, AGE_WARN_MS, AGE_BAD_MS) if inputs.lag is not None else "plain"
    return Tile("Requests waiting", value, level, note, href="/lanes")


def _in_flight(inputs: TileInputs) -> Tile:
    retries = inputs.retries_waiting
    note = f"{retries:,} wait for a retry" if retries else "no retries wait"
    calls = [step.spent.calls for step in inputs.window.steps]
    return Tile("Calls in flight", f"{inputs.in_flight:,}", "plain", note, "", sparks(calls))


def _ended(inputs: TileInputs) -> Tile:
    tile = _counted(inputs, "Requests ended", _all_ended, "plain")
    minutes = len(inputs.window.steps) * inputs.window.step_minutes
    return replace(tile, note=f"{_all_ended(inputs.window.total) / minutes:.1f} a minute")


def _first_try(inputs: TileInputs) -> Tile:
    ended, now = _all_ended(inputs.window.total), endings_of(inputs.window.total)
    retried = f"{share(now['mended'], ended)} retried" if ended else "nothing ended"
    steps = [endings_of(step)["first"] for step in inputs.window.steps]
    value = share(now["first"], ended)
    return Tile("First try", value, "plain", retried, "", sparks(steps), "first")


def _dead(inputs: TileInputs) -> Tile:
    died = endings_of(inputs.window.total)["dead"]
    ended = _all_ended(inputs.window.total)
    level: Level = level_of(died / ended if ended else 0, DEAD_WARN, DEAD_BAD)
    if level == "bad" and died < DEAD_MIN:
        level = "warn"  # as in the status: fewer are looked at one by one
    tile = _counted(inputs, "Died", lambda minute: endings_of(minute)["dead"], level, "dead")
    note = f"{share(died, ended)} of all that ended" if ended else "nothing ended"
    return replace(tile, note=note, href=dead_letters(inputs.span) if died else None)


def _open_dead_letters(inputs: TileInputs) -> Tile:
    level: Level = "warn" if inputs.open_dead_letters else "good"
    return Tile(
        "Open dead letters",
        f"{inputs.open_dead_letters:,}",
        level,
        "to be replayed or dismissed" if inputs.open_dead_letters else "nothing to do",
        href="/letters",
    )


def _latency(inputs: TileInputs) -> Tile:
    took = _took(inputs.window.total)
    note = f"p50 {duration(took.quantile_ms(0.5))}" if took.total else "nothing answered"
    steps = [_took(step).quantile_ms(0.95) or 0 for step in inputs.window.steps]
    p95 = duration(took.quantile_ms(0.95))
    before = _took(inputs.before).quantile_ms(0.95) if inputs.before else None
    now = took.quantile_ms(0.95)
    change = change_text(now, before, "ms") if now and before else ""
    return Tile("Answer time p95", p95, "plain", note, change, sparks(steps))


def _spend(inputs: TileInputs) -> Tile:
    spent = inputs.window.total.spent
    unreported = spent.charged_micro_usd != spent.micro_usd
    repairs = f"{usd(spent.repairs_micro_usd)} of it for repairs"
    note = repairs if spent.repairs_micro_usd else f"{spent.tokens:,} tokens"
    note = f"{usd(spent.charged_micro_usd)} charged" if unreported else note
    tile = _counted(inputs, "Used", lambda m: m.spent.micro_usd, "plain", "spend", "usd")
    return replace(tile, note=note, href="/money")


def _counted(
    inputs: TileInputs,
    name: str,
    count: Callable[[Minute], int],
    level: Level,
    series: str = "plain",
    unit: Unit = "count",
) -> Tile:
    now = count(inputs.window.total)
    change = change_text(now, count(inputs.before), unit) if inputs.before else ""
    steps = sparks([count(step) for step in inputs.window.steps])
    return Tile(name, text_of(now, unit), level, "", change, steps, series)


def _all_ended(minute: Minute) -> int:
    return sum(endings_of(minute).values())


def _took(minute: Minute) -> Histogram:
    took = Histogram()
    for counts in minute.contracts.values():
        took.merge(counts.took)
    return took
