"""`answerbus replay export`: saves the bytes of malformed records as files, to be repaired."""

import asyncio
import base64
import re
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import typer

from answerbus.client.bus import Bus
from answerbus.dead_letter import DeadLetter
from answerbus.limits import REQUEST_BYTES_MAX
from services.command_line import AsJson, Config, bus_of, content_of, stderr, stdout
from services.commands.replay import views
from services.commands.replay.loading import loaded_once, loading, report_unavailable_ids
from services.commands.replay.options import (
    Ids,
    Limit,
    Since,
    Until,
    Where,
    known_of,
    selection_of,
)
from services.commands.replay.running import Done, print_done, send
from services.operator_options import By, Reason, Yes, confirm, now, operator
from services.operators.adapters.bodies import bodies
from services.operators.adapters.replaying import prepared_repairs
from services.operators.adapters.whole_file import write_whole
from services.operators.adapters.writer import writing
from services.operators.dead_letters.forecast import Forecast, KnownNames
from services.operators.dead_letters.prepare_replay import ReplayOrder
from services.operators.dead_letters.selection import Selection, select
from services.operators.explain import cause_text
from services.settings.settings import from_environment
from services.text.counted import count_text
from services.text.escaping import plain_line

SUFFIX = ".json"
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")  # as workers make ids; no other may name a file
Folder = Annotated[
    Path, typer.Argument(help="Where the files go: one for each dead letter, by its id.")
]
Files = Annotated[list[Path], typer.Argument(help="Files that `export` wrote, repaired.")]


def export(
    folder: Folder,
    *,
    where: Where = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Write the invalid records of open dead letters into files, byte for byte.

    Repair the files and give them to `import`. Files that are there already are left as they are.
    """
    selection = selection_of(where, ids, since, until, limit)
    bus = bus_of(from_environment(config).kafka)
    folder.mkdir(parents=True, exist_ok=True)
    written = asyncio.run(_export(bus, selection, folder))
    if as_json:
        views.print_json(written)
        return
    if not written:
        stdout().print("No file: no chosen dead letter has an invalid record that can be written.")
        return
    for one in written:
        stdout().print(plain_line(f"{one['file']}: {one['why']}"), markup=False)
    count, them = count_text(len(written), "file"), "it" if len(written) == 1 else "them"
    stdout().print(f"{count}. Repair {them}, then `answerbus replay import FILE…`.")


async def _export(bus: Bus, selection: Selection, folder: Path) -> list[dict[str, object]]:
    dead_letters = await loaded_once(bus, models=selection.needs_models)
    report_unavailable_ids(dead_letters, selection.ids)
    chosen = [
        dead_letter
        for dead_letter in select(dead_letters, selection)
        if not dead_letter.has_request
    ]
    written = []
    async with aclosing(bodies(bus, chosen)) as found:
        async for dead_letter, body in found:
            if not isinstance(body, DeadLetter):
                stderr().print(plain_line(f"{dead_letter.id}: {body.text}."), markup=False)
            elif not _FILE_NAME.fullmatch(dead_letter.id):
                stderr().print(
                    plain_line(f"{dead_letter.id}: no file can have this name."), markup=False
                )
            else:
                written.append(_write(body, folder / (dead_letter.id + SUFFIX)))
    return written


def _write(dead_letter: DeadLetter, path: Path) -> dict[str, object]:
    raw = dead_letter.raw
    if not path.exists():
        write_whole(path, [base64.b64decode(raw.base64 or "") if raw else b""])
    lost = " Only its beginning was kept." if raw and raw.truncated else ""
    why = cause_text(dead_letter.cause) + (lost if raw else " Nothing of its request was kept.")
    return {"dead_letter_id": dead_letter.dead_letter_id, "file": str(path), "why": why}


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

    A file's name says which dead letter it is. Exit code 1 if a file is still an invalid request.
    """
    repaired = {
        path.name.removesuffix(SUFFIX): content_of(path, REQUEST_BYTES_MAX + 1) for path in files
    }
    if len(repaired) < len(files):
        raise typer.BadParameter("two files have the same name, so both are for one dead letter")
    settings, order = from_environment(config), ReplayOrder(operator(by), reason)
    bus, known = bus_of(settings.kafka), known_of(settings)
    done = asyncio.run(_import(bus, repaired, order, known, ask=not yes))
    print_done(done, "sent", as_json=as_json)


async def _import(
    bus: Bus, repaired: Mapping[str, bytes], order: ReplayOrder, known: KnownNames, *, ask: bool
) -> Done:
    async with loading(bus) as loaded:
        report_unavailable_ids(loaded.dead_letters, repaired)
        named = [(loaded.dead_letters.named(name)[0], repair) for name, repair in repaired.items()]
        chosen = [dead_letter for dead_letter, _ in named if dead_letter.status == "open"]
        if not chosen:
            return Done(Forecast(known))
        if ask:
            confirm(f"Send {count_text(len(chosen), 'repaired request')} as {order.by}?")
        async with writing(bus) as writer:
            still_open = await loaded.still("open", chosen)
            by_dead_letter = {dead_letter.key: repair for dead_letter, repair in named}
            outcomes = prepared_repairs(bus, still_open, by_dead_letter, order, now)
            return await send(writer, outcomes, len(still_open), known)
