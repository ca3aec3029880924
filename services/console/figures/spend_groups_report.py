"""Spending in groups as data, as CSV for finance, and as a figure; pure."""

import csv
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from io import StringIO

from services.console.figures.outcome_charts import Figure, LegendEntry
from services.console.state.spend_groups import GroupAmounts, GroupRow, SpendGroups, Steps
from services.console.views.chart import Axis, columns
from services.console.views.units import MINUTE_MS
from services.operators.dead_letters.moment import as_text
from services.operators.records.money import MICRO
from services.text.escaping import plain_line

SERIES_SHOWN = 5
AMOUNTS = ("calls", "aborted", "unknown", "tokens")
MONEY = ("used_usd", "charged_usd")
_FORMULA = ("=", "+", "-", "@")  # what a spreadsheet would calculate
_STEPS_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)
STEPS_MAX = 60


def steps_between(first_ms: int, end_ms: int) -> Steps:
    """In round steps, few enough for a chart."""
    minutes = max(1, -(-(end_ms - first_ms) // MINUTE_MS))
    least = -(-minutes // STEPS_MAX)
    days = -(-least // _STEPS_MINUTES[-1]) * _STEPS_MINUTES[-1]
    step = next((one for one in _STEPS_MINUTES if least <= one), days)
    return Steps(first_ms, end_ms, step * MINUTE_MS)


def as_data(groups: SpendGroups, rows: Sequence[GroupRow], *, is_cut: bool) -> Mapping[str, object]:
    return {
        "begins": as_text(groups.steps.first_ms),
        "ends": as_text(groups.steps.end_ms),
        "may_lack_deleted": is_cut,
        "by": list(groups.keys),
        "groups": [
            {
                **dict(zip(groups.keys, row.names, strict=True)),
                **row.amounts._asdict(),
                "exact": row.is_exact,
            }
            for row in rows
        ],
        "total": groups.total.amounts._asdict(),
    }


def csv_lines(groups: SpendGroups, rows: Sequence[GroupRow]) -> Iterator[str]:
    """A head, and a line for each group; money is in dollars, exact to the millionth.

    All lines together are the total. Names from outside are texts in spreadsheets, too, on a line.
    """
    yield _csv_line([*groups.keys, *AMOUNTS, *MONEY, "exact"])
    for row in rows:
        names = map(_name, row.names)
        yield _csv_line([*names, *_cells(row.amounts), "yes" if row.is_exact else "at least"])


def _name(name: str) -> str:
    shown = plain_line(name)
    first = shown.strip()[:1]  # to normalize a text takes the square of the accents in it
    is_formula = unicodedata.normalize("NFKC", first).strip().startswith(_FORMULA)
    return f"'{shown}" if is_formula else shown


def _cells(amounts: GroupAmounts) -> Iterator[str]:
    for name in AMOUNTS:
        yield str(getattr(amounts, name))
    for micro_usd in (amounts.used_micro_usd, amounts.charged_micro_usd):
        yield f"{Decimal(micro_usd) / MICRO:.6f}"


def _csv_line(cells: Sequence[str]) -> str:
    line = StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def groups_figure(groups: SpendGroups, rows: Sequence[GroupRow], axis: Axis) -> Figure:
    """The charges of the dearest groups and of all others over time."""
    shown = {f"cause-{number}": row for number, row in enumerate(rows[:SERIES_SHOWN])}
    series = {key: row.charged_by_step for key, row in shown.items()}
    words = {key: " · ".join(row.names) for key, row in shown.items()}
    rest = [
        whole - sum(known)
        for whole, *known in zip(groups.total.charged_by_step, *series.values(), strict=True)
    ]
    if any(rest):
        series["cause-rest"], words["cause-rest"] = rest, "others"
    chart = columns(axis, series, "usd", words=words)
    legend = (LegendEntry(key, words[key], sum(charged)) for key, charged in series.items())
    return Figure(chart, tuple(legend))
