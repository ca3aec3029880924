"""What happened to a workflow, in a terminal: dates and request ids stand once, above their rows.

Repeats are folded, and long texts wrap within their column.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from services.operators.records.within_limits import local_time
from services.operators.timeline.entry import STYLES, TimelineEntry
from services.operators.timeline.folding import folds, without_numbers
from services.text.escaping import plain_line

_TIME, _SINCE = 12, 11  # characters
_INDENT = 2


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
    """What differs from the entry before, and is said of all that follow."""
    date = f"{local_time(entry.at):%Y-%m-%d}"
    if before is None or date != f"{local_time(before.at):%Y-%m-%d}":
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
        Text(f"{' ' * _INDENT}{local_time(entry.at):%H:%M:%S.%f}"[:-3], "dim"),
        Text(f"+{seconds:.3f} s", "dim"),
        Text(entry.kind, STYLES.get(entry.kind, "")),
        Text.assemble(
            entry.text.replace("\n", " "),
            (f" [{place.topic.name}-{place.partition}@{place.offset}]", "dim"),
        ),
    )
    return table
