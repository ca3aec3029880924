"""The time of a workflow: waiting, calls and back-off of each request on one axis; pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from answerbus.budget import AccountState
from answerbus.dead_letter import DeadLetter, Dismissed, Replayed
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.private.ledger import ClosedRecord
from answerbus.request import Request
from answerbus.step import Step
from services.console.views.scale import Tick
from services.console.views.stretches import (
    MS,
    OUTCOMES,
    BarKind,
    Stretch,
    attempts_of,
    ended_by_attempt,
    stretches,
)
from services.console.views.time_axis import PLACES, TimeAxis
from services.console.views.units import duration, usd
from services.operators.timeline.entry import TimelineEntry

REQUESTS_MAX = 60  # rows of one picture: the newest
ROWS_SHOWN = 10  # on a page as it opens; those before them are folded away
_WITH_ACCOUNT = (Result, UnvalidatedResult, Refusal, DeadLetter, RetryRequest, Step)


@dataclass(frozen=True, slots=True)
class Gauge:
    """How much of an account's limit is spent; no limit, no `percent`."""

    name: str
    text: str
    percent: float | None


def gauges(entries: Iterable[TimelineEntry]) -> tuple[Gauge, ...]:
    """Of the account that the newest event with one shows."""
    state: AccountState | None = None
    for entry in entries:
        event = entry.seen.event
        if isinstance(event, _WITH_ACCOUNT):
            state = event.account or state
    if state is None:
        return ()
    return tuple(_budget(state))


def _budget(state: AccountState) -> Iterable[Gauge]:
    spent, limit = state.spent, state.limit
    rows: Mapping[str, tuple[int, int | None]] = {
        "attempts": (spent.attempts, limit.attempts),
        "tokens": (spent.tokens, limit.tokens),
        "money": (spent.micro_usd, limit.micro_usd),
    }
    for name, (used, most) in rows.items():
        show = usd if name == "money" else "{:,}".format
        text = f"{show(used)} of {show(most)}" if most is not None else f"{show(used)}, no limit"
        percent = None if most is None else 100.0 if used >= most else 100 * used / most
        yield Gauge(name, text, percent)


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of time, in percent of the axis."""

    kind: BarKind
    x: float
    width: float
    label: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something without a duration: the end of a request, a replay, a dismissal."""

    kind: str
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class WaterfallRow:
    request_id: str
    ended: str
    took: str
    calls: int
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The rows under one axis; `left_out` older requests are not drawn."""

    rows: tuple[WaterfallRow, ...]
    ticks: tuple[Tick, ...]
    begin: datetime
    span: str
    gauges: tuple[Gauge, ...]
    left_out: int

    @property
    def folded(self) -> tuple[WaterfallRow, ...]:
        return self.rows[:-ROWS_SHOWN]

    @property
    def shown(self) -> tuple[WaterfallRow, ...]:
        return self.rows[-ROWS_SHOWN:]

    @property
    def kinds(self) -> frozenset[BarKind]:
        """Those that the legend names."""
        return frozenset(bar.kind for row in self.rows for bar in row.bars)


def waterfall(entries: Sequence[TimelineEntry], now: datetime) -> Waterfall | None:
    """None where nothing of it has a request."""
    by_request: defaultdict[str, list[TimelineEntry]] = defaultdict(list)
    for entry in entries:
        event = entry.seen.event
        is_of_place = isinstance(event, ClosedRecord) and event.is_place  # which is not a request
        if entry.request_id is not None and not is_of_place:
            by_request[entry.request_id].append(entry)
    if not by_request:
        return None
    newest = list(by_request.items())[-REQUESTS_MAX:]
    found = [(name, own, stretches(own, now)) for name, own in newest]
    times = [entry.at for _, own, _ in found for entry in own if _is_timed(entry)]
    times += [at for _, _, one in found for part in one for at in (part.begin, part.end)]
    if not times:
        return None
    begin, end = min(times), max(times)
    axis = TimeAxis(begin, max(end - begin, MS))
    rows = tuple(_row(name, own, parts, axis) for name, own, parts in found)
    left_out = len(by_request) - len(rows)
    span = duration(axis.span / MS)
    return Waterfall(rows, axis.ticks, begin, span, gauges(entries), left_out)


def bar_of(stretch: Stretch, axis: TimeAxis) -> Bar:
    """Where it is on the axis."""
    x = axis.x(stretch.begin)
    took = duration((stretch.end - stretch.begin) / MS)
    return Bar(stretch.kind, x, round(axis.x(stretch.end) - x, PLACES), stretch.label, took)


def _row(
    request_id: str, own: Sequence[TimelineEntry], found: Sequence[Stretch], axis: TimeAxis
) -> WaterfallRow:
    bars = tuple(bar_of(stretch, axis) for stretch in found)
    outcome = next((entry for entry in own if isinstance(entry.seen.event, OUTCOMES)), None)
    # The dead letter of an invalid record is not of this workflow, and what was done about it is.
    acted = (entry for entry in own if isinstance(entry.seen.event, (Replayed, Dismissed)))
    last = outcome or next(acted, None)
    ended = last.kind if last else ended_by_attempt(own) or "open"
    ends = [outcome.at] if outcome else [stretch.end for stretch in found]
    begin = min([*(stretch.begin for stretch in found), *ends], default=None)
    took = duration((max(ends) - begin) / MS) if begin and ends else "–"
    marks = tuple(
        Mark(entry.kind, axis.x(entry.at), f"{entry.kind.replace('_', ' ')} at {entry.at:%H:%M:%S}")
        for entry in own
        if isinstance(entry.seen.event, (*OUTCOMES, Replayed, Dismissed))
    )
    return WaterfallRow(request_id, ended, took, len(attempts_of(own)), bars, marks)


def _is_timed(entry: TimelineEntry) -> bool:
    return isinstance(entry.seen.event, (Request, *OUTCOMES, Replayed, Dismissed))
