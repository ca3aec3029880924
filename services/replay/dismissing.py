"""`answerbus replay dismiss`: put letters aside for good."""

import asyncio
from collections.abc import Sequence

from answerbus.client.bus import Bus
from answerbus.dead_letter import Dismissed
from answerbus.limits import REASON_BYTES_MAX
from answerbus.wire import clip
from services.command_line import AsJson, Config, bus_of, stdout
from services.letters.letter import Letter
from services.letters.selection import Selection, select
from services.replay import views
from services.replay.asking import confirm, mind_ids
from services.replay.loading import loading
from services.replay.options import (
    By,
    Ids,
    Limit,
    Reason,
    Since,
    Until,
    Where,
    Yes,
    now,
    operator,
    selection_of,
)
from services.replay.progress import progress
from services.replay.stopping import HowEnded, leave, stopping
from services.reviving.writer import CHANGES_MAX, Change, Superseded, Writer, writing
from services.settings import from_environment


def dismiss(
    *,
    reason: Reason,
    where: Where = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    by: By = None,
    yes: Yes = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Put open letters aside: no replay takes them any more. The letters themselves stay."""
    selection = selection_of(where, ids, since, until, limit)
    bus, who = bus_of(from_environment(config).kafka), operator(by)
    done, ending = asyncio.run(_dismiss(bus, selection, who, reason, ask=not yes))
    if as_json:
        views.print_json({"end": ending, "dismissed": len(done), "letters": done})
    else:
        stdout().print(f"{len(done):,} letters dismissed.")
    leave(ending)


async def _dismiss(
    bus: Bus, selection: Selection, by: str, reason: str, *, ask: bool
) -> tuple[list[str], HowEnded]:
    async with loading(bus, models=selection.needs_models) as loaded:
        mind_ids(loaded.letters, selection.ids)
        chosen = select(loaded.letters, selection)
        if not chosen:
            return [], "done"
        if ask:
            confirm(f"Dismiss {len(chosen):,} letters as {by}?")
        async with writing(bus) as writer:
            await loaded.catch_up()
            still_open = [letter for letter in chosen if letter.status == "open"]
            return await _put_aside(writer, still_open, by, reason)


async def _put_aside(
    writer: Writer, chosen: Sequence[Letter], by: str, reason: str
) -> tuple[list[str], HowEnded]:
    done: list[str] = []
    with stopping() as stop, progress("dismissing", len(chosen)) as advance:
        for start in range(0, len(chosen), CHANGES_MAX):
            if stop.is_set():
                return done, "stopped"
            some = chosen[start : start + CHANGES_MAX]
            try:
                await writer.commit([_dismissal(letter, by, reason) for letter in some])
            except Superseded:
                return done, "superseded"
            done += [letter.id for letter in some]
            advance(len(some))
    return done, "done"


def _dismissal(letter: Letter, by: str, reason: str) -> Change:
    dismissed = Dismissed(
        dead_letter_id=letter.id,
        by=clip(by, REASON_BYTES_MAX),
        reason=clip(reason, REASON_BYTES_MAX),
        at=now(),
    )
    return Change(dismissed, letter.place.partition)
