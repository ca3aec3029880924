"""`answerbus replay dismiss`: marks dead letters as done, without a replay."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from answerbus.client.bus import Bus
from services.command_line import AsJson, Config, bus_of, stdout
from services.commands.long_task import HowEnded, leave, progress, stopping
from services.commands.operator import By, Reason, Yes, confirm, now, operator
from services.commands.replay import views
from services.commands.replay.loading import loading, report_unavailable_ids
from services.commands.replay.options import Ids, Limit, Since, Until, Where, selection_of
from services.operators.adapters.dismissing import dismissing
from services.operators.adapters.writer import Superseded, writing
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.dead_letters.selection import Selection, select
from services.settings.settings import from_environment


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
        stdout().print(f"{len(done):,} dead letters dismissed.")
    leave(ending)


async def _dismiss(
    bus: Bus, selection: Selection, by: str, reason: str, *, ask: bool
) -> tuple[list[str], HowEnded]:
    async with loading(bus, models=selection.needs_models) as loaded:
        report_unavailable_ids(loaded.letters, selection.ids)
        chosen = select(loaded.letters, selection)
        if not chosen:
            return [], "done"
        if ask:
            confirm(f"Dismiss {len(chosen):,} dead letters as {by}?")
        async with writing(bus) as writer:
            still_open = await loaded.still_open(chosen)
            steps = dismissing(writer, still_open, by, reason, now)
            return await _put_aside(steps, len(still_open))


async def _put_aside(
    steps: AsyncIterator[Sequence[DeadLetterRow]], count: int
) -> tuple[list[str], HowEnded]:
    done: list[str] = []
    with stopping() as stop, progress("dismissing", count) as advance:
        try:
            async for step in steps:
                done += [letter.id for letter in step]
                advance(len(step))
                if stop.is_set() and len(done) < count:
                    return done, "stopped"
        except Superseded:
            return done, "superseded"
    return done, "done"
