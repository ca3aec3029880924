"""`answerbus spend`: what was used and charged, by contract, model, label and workflow."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from answerbus.client.bus import Bus
from answerbus.client.turns import in_turns
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, REFUSALS, RESULTS
from services.command_line import AsJson, Config, bus_of, stderr, stdout
from services.console.figures.spend_report import LINES_MAX, SpendLine, SpendReport, spend_report
from services.console.state.board import Board
from services.console.views.filters import FilterFault
from services.console.views.time_range import RANGES, time_range_of
from services.console.views.units import by_caches, short, usd
from services.operators.adapters.reader import reading
from services.operators.records.summary import summarize
from services.settings.settings import from_environment
from services.text.escaping import json_lines, plain_line

SHOWN = 10
TOPICS_READ = (ATTEMPTS, RESULTS, REFUSALS, DEAD_LETTERS)  # outcomes name the contracts

Range = Annotated[str, typer.Option("--range", metavar="TIME", help=f"One of {', '.join(RANGES)}.")]
Top = Annotated[
    int,
    typer.Option("--top", min=1, max=LINES_MAX, help="Workflows, and values of a label, to list."),
]


def spend(
    *,
    time_range: Range = "24h",
    top: Top = SHOWN,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Show what calls used and what accounts were charged; the dearest come first.

    Used is what providers reported; charged is that, and the worst case of what they did not.
    """
    chosen = time_range_of({"range": time_range}, int(time.time() * 1000))
    if isinstance(chosen, FilterFault):
        raise typer.BadParameter(chosen.reason)
    settings = from_environment(config)
    with stderr().status("reading"):
        board = asyncio.run(_board(bus_of(settings.kafka)))
    window = board.window(chosen.charted_end_ms - 1, chosen.charted_minutes, 1)
    found = spend_report(board, window, top)
    if as_json:
        typer.echo(json_lines(asdict(found)))
        return
    for table in tables(found):
        stdout().print(table)


async def _board(bus: Bus) -> Board:
    board = Board()
    async with reading(bus, TOPICS_READ) as reader:
        async for batch in reader.to_end():
            async for stored in in_turns(batch):
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
