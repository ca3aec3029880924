"""Where a workflow's time went, as bars of text; pure."""

from collections.abc import Iterator, Mapping

from rich.text import Text

from services.console.views.stretches import BarKind
from services.console.views.waterfall import Waterfall, WaterfallRow
from services.text.escaping import plain_line

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
    calls = f"{row.calls} call{'' if row.calls == 1 else 's'}"
    return f" {row.took}, {calls}, {row.ended.replace('_', ' ')}"


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
