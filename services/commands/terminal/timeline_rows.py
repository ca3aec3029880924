"""The events of a workflow in a terminal: dates and request ids once, above their rows.

Repeats are folded, and long texts wrap within their column.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from services.console.views.stretches import BarKind
from services.console.views.waterfall import Waterfall, WaterfallRow
from services.operators.timeline.entry import STYLES, TimelineEntry
from services.operators.timeline.folding import folds, without_numbers
from services.text.counted import count_text
from services.text.escaping import plain_line

_TIME, _SINCE = 12, 11  # characters
_INDENT = 2
CELLS, CELLS_MIN = 60, 8  # of a bar
NAME_CELLS = 24
_STYLES: Mapping[BarKind, tuple[str, str]] = {
    "waiting": ("░", "dim"),
    "backoff": ("▒", "yellow"),
    "tools": ("▒", "cyan"),
    "approval": ("▒", "magenta"),
    "running": ("█", "bold cyan"),
    "result": ("█", "green"),
    "step": ("█", "green"),
    "unvalidated_result": ("█", "yellow"),
    "refusal": ("█", "magenta"),
    "retry": ("█", "dark_orange"),
    "failed": ("█", "dark_orange"),
    "dead_letter": ("█", "red"),
    "unknown": ("█", "dim"),
    "released": ("█", "dim"),
}
_GAUGE_CELLS = 10
LEGEND = "░ waits  ▒ back-off, tools  █ call"


def timeline_rows(
    entries: Sequence[TimelineEntry],
    content: Callable[[TimelineEntry], Iterable[Text]] | None = None,
) -> Iterator[RenderableType]:
    """All entries; with their contents each of them, without them repeats are folded."""
    kinds = max((len(entry.kind) for entry in entries), default=0)
    keys = [(entry.kind, entry.request_id, without_numbers(entry.text)) for entry in entries]
    before: TimelineEntry | None = None
    for fold in folds(range(len(keys)) if content else keys):
        for entry in entries[fold.start : fold.start + fold.period]:
            yield from _headings(entry, before)
            yield _row(entry, entries[0].at, kinds)
            yield from (Padding(text, (0, 0, 0, 4)) for text in (content(entry) if content else ()))
            before = entry
        if fold.count > 1:
            yield Text(f"{' ' * _INDENT}… the same {fold.count - 1} times more, the last:", "dim")
            yield _row(entries[fold.end - 1], entries[0].at, kinds)


def _headings(entry: TimelineEntry, before: TimelineEntry | None) -> Iterator[Text]:
    """The differences from the entry before, shown above all that follow."""
    date = f"{entry.at.astimezone(UTC):%Y-%m-%d} UTC"
    if before is None or date != f"{before.at.astimezone(UTC):%Y-%m-%d} UTC":
        yield Text(date, "dim")
    if before is None or entry.request_id != before.request_id:
        yield Text(plain_line(entry.request_id or "-"), "bold")


def _row(entry: TimelineEntry, begin: datetime, kinds: int) -> Table:
    place, seconds = entry.place, (entry.at - begin).total_seconds()
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(width=_TIME + _INDENT, no_wrap=True)
    table.add_column(width=_SINCE, no_wrap=True, justify="right")
    table.add_column(width=kinds, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_row(
        Text(f"{' ' * _INDENT}{entry.at.astimezone(UTC):%H:%M:%S.%f}"[:-3], "dim"),
        Text(f"+{seconds:.3f} s", "dim"),
        Text(entry.kind, STYLES.get(entry.kind, "")),
        Text.assemble(
            entry.text.replace("\n", " "),
            (f" [{place.topic.name}-{place.partition}@{place.offset}]", "dim"),
        ),
    )
    return table


def bars(picture: Waterfall, width: int | None = None) -> Iterator[Text]:
    """One line for each request, then the budget; as wide as a terminal, if there is one."""
    yield Text.assemble((f"{picture.span} in all  ", "bold"), (LEGEND, "dim"))
    room = CELLS if width is None else width - NAME_CELLS - 1
    longest = max((len(_ending(row)) for row in picture.rows), default=0) if width else 0
    cells = max(CELLS_MIN, min(CELLS, room - longest))
    for row in picture.rows:
        yield _line(row, cells)
    gauges = [gauge for gauge in picture.gauges if gauge.percent is not None]
    for gauge in gauges:
        full = round(_GAUGE_CELLS * (gauge.percent or 0) / 100)
        drawn = "▰" * full + "▱" * (_GAUGE_CELLS - full)
        yield Text.assemble(f"budget of {gauge.name} ", (drawn, "cyan"), f" {gauge.text}")


def _ending(row: WaterfallRow) -> str:
    return f" {row.took}, {count_text(row.calls, 'call')}, {row.ended.replace('_', ' ')}"


def _line(row: WaterfallRow, count: int) -> Text:
    name = plain_line(row.request_id)
    name = name if len(name) <= NAME_CELLS else f"{name[: NAME_CELLS - 1]}…"
    cells: list[tuple[str, str]] = [(" ", "")] * count
    for bar in row.bars:
        first = min(count - 1, int(bar.x * count / 100))
        last = min(count - 1, int((bar.x + bar.width) * count / 100))
        for at in range(first, last + 1):
            cells[at] = _STYLES[bar.kind]
    drawn = Text.assemble(*cells)
    return Text.assemble((name.ljust(NAME_CELLS), "bold"), " ", drawn, _ending(row))
