"""What a workflow's time went to: waiting, calls and back-off of each request on one axis; pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from answerbus.dead_letter import Dismissed, Replayed
from answerbus.request import Request
from services.console.views.budget_gauge import Gauge, gauges
from services.console.views.scale import Tick
from services.console.views.stretches import MS, TERMINALS, BarKind, Stretch, attempts_of, stretches
from services.console.views.units import duration
from services.operators.timeline.entry import TimelineEntry

REQUESTS_MAX = 60  # rows of one picture: the newest
_TICKS_MAX = 6
_PLACES = 3


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
    """One request."""

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


def waterfall(entries: Sequence[TimelineEntry], now: datetime) -> Waterfall | None:
    """None where nothing of it has a request."""
    by_request: defaultdict[str, list[TimelineEntry]] = defaultdict(list)
    for entry in entries:
        if entry.request_id is not None:
            by_request[entry.request_id].append(entry)
    if not by_request:
        return None
    newest = list(by_request.items())[-REQUESTS_MAX:]
    found = [(name, own, stretches(own, now)) for name, own in newest]
    times = [entry.at for _, own, _ in found for entry in own if _is_told(entry)]
    times += [at for _, _, one in found for part in one for at in (part.begin, part.end)]
    if not times:
        return None
    begin, end = min(times), max(times)
    scale = _Scale(begin, max(end - begin, MS))
    rows = tuple(_row(name, own, parts, scale) for name, own, parts in found)
    left_out = len(by_request) - len(rows)
    span = duration(scale.span / MS)
    return Waterfall(rows, scale.ticks, begin, span, gauges(entries), left_out)


@dataclass(frozen=True, slots=True)
class _Scale:
    begin: datetime
    span: timedelta

    def x(self, at: datetime) -> float:
        return round(min(100.0, max(0.0, 100 * ((at - self.begin) / self.span))), _PLACES)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        span_ms = self.span / MS
        step = _step_ms(span_ms)
        count = int(span_ms // step) + 1
        return tuple(
            Tick(round(100 * n * step / span_ms, _PLACES), duration(n * step) if n else "0")
            for n in range(count)
        )


def _step_ms(span_ms: float) -> float:
    """A round one: in seconds, minutes and hours as clocks have them."""
    for unit, digits in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 3, 6, 12)),
    ):
        for digit in digits:
            if span_ms <= unit * digit * _TICKS_MAX:
                return unit * digit
    days = 1
    while span_ms > days * 86_400_000 * _TICKS_MAX:
        days *= 2
    return days * 86_400_000


def _row(
    request_id: str, own: Sequence[TimelineEntry], found: Sequence[Stretch], scale: _Scale
) -> WaterfallRow:
    bars = tuple(
        Bar(
            one.kind,
            scale.x(one.begin),
            round(scale.x(one.end) - scale.x(one.begin), _PLACES),
            one.label,
            duration((one.end - one.begin) / MS),
        )
        for one in found
    )
    terminal = next((one for one in own if isinstance(one.seen.event, TERMINALS)), None)
    ended = terminal.kind if terminal else "open"
    ends = [terminal.at] if terminal else [one.end for one in found]
    begin = min([*(one.begin for one in found), *ends], default=None)
    took = duration((max(ends) - begin) / MS) if begin and ends else "–"
    marks = tuple(
        Mark(one.kind, scale.x(one.at), f"{one.kind.replace('_', ' ')} at {one.at:%H:%M:%S}")
        for one in own
        if isinstance(one.seen.event, (*TERMINALS, Replayed, Dismissed))
    )
    return WaterfallRow(request_id, ended, took, len(attempts_of(own)), bars, marks)


def _is_told(entry: TimelineEntry) -> bool:
    return isinstance(entry.seen.event, (Request, *TERMINALS, Replayed, Dismissed))
