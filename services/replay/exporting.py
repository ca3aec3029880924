"""`answerbus replay export`: saves the bytes of malformed records as files, to be repaired."""

import asyncio
import base64
import re
from pathlib import Path
from typing import Annotated

import typer

from answerbus.client.bus import Bus
from answerbus.dead_letter import DeadLetter
from services.command_line import AsJson, Config, bus_of, stderr, stdout
from services.operators.adapters.bodies import bodies
from services.operators.dead_letters.selection import Selection, select
from services.operators.explain import cause_text
from services.replay import views
from services.replay.confirmation import report_unavailable_ids
from services.replay.loading import loaded_once
from services.replay.options import Ids, Limit, Since, Until, Where, selection_of
from services.settings.settings import from_environment
from services.text.escaping import plain_line

SUFFIX = ".json"
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")  # as workers make ids; no other may name a file
Folder = Annotated[Path, typer.Argument(help="Where the files go: one a letter, by its id.")]


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
    """Write what open dead letters hold in place of a request, byte by byte, into files.

    Repair the files and give them to `import`. Files that are there already are left as they are.
    """
    selection = selection_of(where, ids, since, until, limit)
    bus = bus_of(from_environment(config).kafka)
    folder.mkdir(parents=True, exist_ok=True)
    written = asyncio.run(_export(bus, selection, folder))
    if as_json:
        views.print_json(written)
        return
    for one in written:
        stdout().print(plain_line(f"{one['file']}: {one['why']}"), markup=False)
    stdout().print(f"{len(written):,} files. Repair them, then `answerbus replay import FILE…`.")


async def _export(bus: Bus, selection: Selection, folder: Path) -> list[dict[str, object]]:
    letters = await loaded_once(bus, models=selection.needs_models)
    report_unavailable_ids(letters, selection.ids)
    chosen = [letter for letter in select(letters, selection) if not letter.has_request]
    written = []
    async for letter, body in bodies(bus, chosen):
        if not isinstance(body, DeadLetter):
            stderr().print(plain_line(f"{letter.id}: {body.text}."), markup=False)
        elif not _FILE_NAME.fullmatch(letter.id):
            stderr().print(plain_line(f"{letter.id}: no file can have this name."), markup=False)
        else:
            written.append(_write(body, folder / (letter.id + SUFFIX)))
    return written


def _write(letter: DeadLetter, path: Path) -> dict[str, object]:
    raw = letter.raw
    if not path.exists():
        path.write_bytes(base64.b64decode(raw.base64 or "") if raw else b"")
    cut = raw is not None and raw.truncated
    why = cause_text(letter.cause) + (" Only its beginning was kept." if cut else "")
    return {"dead_letter_id": letter.dead_letter_id, "file": str(path), "why": why}
