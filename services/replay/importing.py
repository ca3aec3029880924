"""`answerbus replay import`: sends repaired records in place of malformed ones."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from answerbus.client.bus import Bus
from answerbus.limits import REQUEST_BYTES_MAX
from services.command_line import AsJson, Config, bus_of, stdout
from services.operators.adapters.replaying import prepared_repairs
from services.operators.adapters.writer import writing
from services.operators.dead_letters.prepare_replay import ReplayOrder
from services.replay import forecast_views, views
from services.replay.confirmation import confirm, report_unavailable_ids
from services.replay.exporting import SUFFIX
from services.replay.loading import loading
from services.replay.options import By, Reason, Yes, now, operator
from services.replay.sending import Done, send
from services.replay.stopping import leave
from services.settings.settings import from_environment

Files = Annotated[list[Path], typer.Argument(help="Files that `export` wrote, repaired.")]


def import_(
    files: Files,
    *,
    reason: Reason = "repaired",
    by: By = None,
    yes: Yes = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Send repaired requests, each once, and link them to the dead letters that they repair.

    A file's name says which dead letter it is. Exit code 1 if a file is still no valid request.
    """
    repaired = {path.name.removesuffix(SUFFIX): _content(path) for path in files}
    bus, order = bus_of(from_environment(config).kafka), ReplayOrder(operator(by), reason)
    done = asyncio.run(_import(bus, repaired, order, ask=not yes))
    if as_json:
        views.print_json(forecast_views.done_data(done.sent, done.sums, done.ended))
    else:
        stdout().print(forecast_views.forecast_table(done.sums, "sent"))
    leave(done.ended)
    if done.sums.held_back:
        raise typer.Exit(1)


async def _import(
    bus: Bus, repaired: Mapping[str, bytes], order: ReplayOrder, *, ask: bool
) -> Done:
    async with loading(bus) as loaded:
        report_unavailable_ids(loaded.letters, repaired)
        named = [letter for letter in loaded.letters if letter.id in repaired]
        chosen = [letter for letter in named if letter.status == "open"]
        if not chosen:
            return Done()
        if ask:
            confirm(f"Send {len(chosen):,} repaired requests as {order.by}?")
        async with writing(bus) as writer:
            still_open = await loaded.still_open(chosen)
            outcomes = prepared_repairs(bus, still_open, repaired, order, now)
            return await send(writer, outcomes, len(still_open))


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(REQUEST_BYTES_MAX + 1)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None
