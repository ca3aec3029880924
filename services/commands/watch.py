"""`answerbus watch`: the outcomes on the bus as they arrive, as lines or as JSON."""

import asyncio
from collections import deque
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from answerbus.topics import DEAD_LETTERS, REFUSALS, RESULTS, RETRIES
from services.command_line import AsJson, Config, bus_of, stdout
from services.commands.kafka_away import KafkaAway, warn
from services.operators.adapters.reader import reading
from services.operators.records.decoded import DecodedRecord, decoded
from services.operators.records.event_data import as_data
from services.operators.records.event_line import STYLES, detail_of, line_of
from services.operators.records.record_filter import RecordFilter
from services.operators.timeline.folding import without_numbers
from services.settings.settings import KafkaSettings, from_environment
from services.text.escaping import json_line

_PERIOD_MAX = 2  # such as retries and dead letters by turns
TOPICS = (RESULTS, REFUSALS, RETRIES, DEAD_LETTERS)

Workflow = Annotated[
    str | None, typer.Option("--workflow", metavar="ID", help="This workflow alone.")
]
ContractName = Annotated[
    str | None,
    typer.Option("--contract", help="A contract, as plan_proposal or plan_proposal.v1."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help=f"One of {', '.join(STYLES)}; may be repeated.",
        autocompletion=lambda: tuple(STYLES),
    ),
]
FromStart = Annotated[bool, typer.Option("--from-start", help="Begin with what is still kept.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="End after so many.")]


def watch(
    *,
    workflow: Workflow = None,
    contract: ContractName = None,
    kind: Kinds = None,
    from_start: FromStart = False,
    limit: Limit = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Show results, refusals, retries and dead letters as they come. Ctrl-C ends it."""
    for name in kind or ():
        if name not in STYLES:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(STYLES)}.")
    record_filter = RecordFilter(workflow, contract, frozenset(kind) if kind else None)
    settings = from_environment(config).kafka
    asyncio.run(
        _watch(settings, record_filter, from_start=from_start, limit=limit, as_json=as_json)
    )


class Repeats:
    """Lines that say what one of the two before them said, but for ids and numbers."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._shown = deque[object](maxlen=_PERIOD_MAX)
        self.count = 0

    def is_new(self, entry: object) -> bool:
        """Whether this is to be shown."""
        if self._is_on and entry in self._shown:
            return False
        self._shown.append(entry)
        return True

    def take(self) -> int:
        """How many were left out since this was asked last."""
        count, self.count = self.count, 0
        return count


async def _watch(
    settings: KafkaSettings,
    record_filter: RecordFilter,
    *,
    from_start: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    console = stdout()
    shown, repeats = 0, Repeats(is_on=console.is_terminal and not as_json)
    away = KafkaAway(settings.bootstrap_servers, warn)
    async with reading(
        bus_of(settings), TOPICS, workflow_id=record_filter.workflow_id, from_start=from_start
    ) as reader:
        async for batch in reader.follow():
            away.look(is_connected=reader.is_connected)
            for found in filter(record_filter.admits, map(decoded, batch)):
                if as_json:
                    typer.echo(json_line(as_data(found)))
                else:
                    _show(console, found, repeats)
                shown += 1
                if shown == limit:
                    _end_repeats(console, repeats)
                    return
            _end_repeats(console, repeats)


def _show(console: Console, found: DecodedRecord, repeats: Repeats) -> None:
    line = line_of(found)
    if repeats.is_new((found.kind, found.schema_name, without_numbers(detail_of(found)))):
        _end_repeats(console, repeats)
        console.print(line)
    else:
        repeats.count += 1


def _end_repeats(console: Console, repeats: Repeats) -> None:
    if count := repeats.take():
        console.print(Text(f"          … and {count:,} more that say the same", "dim"))
