"""`answerbus spend`: what was used and charged, by contract, model, label and workflow."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from answerbus.client.bus import Bus
from answerbus.topics import ATTEMPTS, OUTCOMES
from services.command_line import AsJson, Config, bus_of, print_table, stderr, stdout, writing_file
from services.commands.time_option import time_option
from services.console.figures.spend_groups_report import as_data, csv_lines
from services.console.figures.spend_report import LINES_MAX, SpendLine, SpendReport, spend_report
from services.console.state.board import Board
from services.console.state.spend_groups import (
    KEYS,
    LABEL,
    GroupRow,
    KeysFault,
    SpendGroups,
    Steps,
    keys_of,
)
from services.console.tasks.spend_reading import read_spend
from services.console.views.filters import FilterFault
from services.console.views.time_range import RANGES, time_range_of
from services.console.views.units import by_caches, short, usd
from services.operators.adapters.reader import reading
from services.operators.adapters.whole_file import write_whole
from services.operators.dead_letters.moment import EXAMPLES, as_text
from services.operators.records.summary import summarize
from services.settings.settings import from_environment
from services.text.escaping import json_lines, plain_line

SHOWN = 10
DAY = "24h"
CUT = "Kafka may have deleted attempts since then (retention): these sums may lack them."
TOPICS_READ = (ATTEMPTS, *OUTCOMES)  # outcomes name the contracts
NAMES = timedelta(days=1)  # of outcomes before the time: a contract may have had none within it

Range = Annotated[
    str | None,
    typer.Option("--range", metavar="TIME", help=f"One of {', '.join(RANGES)}.", show_default=DAY),
]
Top = Annotated[
    int,
    typer.Option("--top", min=1, max=LINES_MAX, help="Workflows, values or groups to list."),
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="KEYS", help=f"Group by these: {', '.join(KEYS)}, {LABEL}NAME."),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help=f"With --by: {EXAMPLES}. Default: a day ago."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="With --by: up to then.")
]
CsvFile = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="With --by: write all groups there.")
]


def spend(
    *,
    time_range: Range = None,
    by: By = None,
    since: Since = None,
    until: Until = None,
    csv_file: CsvFile = None,
    top: Top = SHOWN,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Show what calls used and what accounts were charged, the most expensive first.

    Used is what providers reported; charged is that, and the worst case of what they did not.
    With --by, groups such as contract,label.tenant, between any times that Kafka keeps.
    """
    if by is not None:
        if time_range is not None:
            raise typer.BadParameter("--range is for the overview: with --by, give --since")
        _grouped(by, (since, until), csv_file, top, as_json=as_json, config=config)
        return
    if since or until or csv_file:
        raise typer.BadParameter("--since, --until and --csv are for groups: give --by, too")
    chosen = time_range_of({"range": time_range or DAY}, int(time.time() * 1000))
    if isinstance(chosen, FilterFault):
        raise typer.BadParameter(chosen.reason)
    settings = from_environment(config)
    begin = datetime.fromtimestamp(chosen.first_ms / 1000, UTC)
    with stderr().status("reading"):
        board = asyncio.run(_board(bus_of(settings.kafka), begin - NAMES))
    window = board.window(chosen.charted_end_ms - 1, chosen.charted_minutes, 1)
    found = spend_report(board, window, top)
    if as_json:
        typer.echo(json_lines(asdict(found)))
        return
    for table in tables(found):
        print_table(stdout(), table)


def _grouped(
    by: str,
    times: tuple[str | None, str | None],
    csv_file: Path | None,
    top: int,
    *,
    as_json: bool,
    config: Path | None,
) -> None:
    keys, now_ms = keys_of(by), int(time.time() * 1000)
    if isinstance(keys, KeysFault):
        raise typer.BadParameter(keys.reason, param_hint="--by")
    first_ms, end_ms = (
        time_option(text or default, now_ms)
        for text, default in zip(times, (DAY, "0s"), strict=True)
    )
    if first_ms >= end_ms:
        raise typer.BadParameter("the time --since must be before --until")
    groups = SpendGroups(keys, Steps(first_ms, end_ms, end_ms - first_ms))
    settings = from_environment(config)
    with stderr().status("reading"):
        is_cut = asyncio.run(read_spend(bus_of(settings.kafka), groups))
    if is_cut:
        stderr().print(CUT, style="yellow")
    if csv_file is not None:
        _write(csv_file, csv_lines(groups, groups.rows()))
    rows = groups.rows(top)
    if as_json:
        typer.echo(json_lines(as_data(groups, rows, is_cut=is_cut)))
    else:
        print_table(stdout(), groups_table(groups, rows))


def _write(path: Path, lines: Iterable[str]) -> None:
    """Whole, or not at all."""
    if not path.name:
        raise typer.BadParameter("--csv: give the name of a file")
    with writing_file(path):
        write_whole(path, (line.encode() for line in lines))


async def _board(bus: Bus, since: datetime) -> Board:
    board = Board()
    async with reading(bus, TOPICS_READ, since=since) as reader:
        async for stored in reader.records():
            board.take(summarize(stored))
    return board


def tables(found: SpendReport) -> Sequence[Table]:
    lists = {
        "contract": found.contracts,
        "model": found.models,
        **found.labels,
        "workflow": found.workflows,
    }
    times = f"{found.begins[:16]}Z to {found.ends[:16]}Z"
    total = _table(times, [found.total])
    total.caption = by_caches(found.cache_saved_micro_usd) or None
    return [*(_table(name, lines) for name, lines in lists.items()), total]


def _table(name: str, lines: Sequence[SpendLine]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(Text(plain_line(name)), style="bold", overflow="fold")
    for head in ("used", "charged", "calls", "tokens"):
        table.add_column(head, justify="right", no_wrap=True)
    for line in lines:
        least = "" if line.exact else "≥ "
        table.add_row(
            Text(plain_line(line.name)),
            f"{least}{usd(line.used_micro_usd)}",
            f"{least}{usd(line.charged_micro_usd)}",
            f"{least}{line.calls:,}",
            short(line.tokens),
        )
    return table


def groups_table(groups: SpendGroups, rows: Sequence[GroupRow]) -> Table:
    """The groups, and their total."""
    times = f"{as_text(groups.steps.first_ms)[:16]}Z to {as_text(groups.steps.end_ms)[:16]}Z"
    table = Table(box=None, pad_edge=False, header_style="dim", title=times, title_justify="left")
    for key in groups.keys:
        table.add_column(Text(plain_line(key)), style="bold", overflow="fold")
    for head in ("used", "charged", "calls", "aborted", "unknown", "tokens"):
        table.add_column(head, justify="right", no_wrap=True)
    others = [""] * (len(groups.keys) - 1)
    for row in (*rows, replace(groups.total, names=("total", *others))):
        least, amounts = "" if row.is_exact else "≥ ", row.amounts
        table.add_row(
            *(Text(plain_line(name)) for name in row.names),
            f"{least}{usd(amounts.used_micro_usd)}",
            f"{least}{usd(amounts.charged_micro_usd)}",
            f"{least}{amounts.calls:,}",
            f"{amounts.aborted:,}",
            f"{amounts.unknown:,}",
            short(amounts.tokens),
        )
    return table
