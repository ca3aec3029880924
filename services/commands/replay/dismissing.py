"""`answerbus replay dismiss` marks dead letters as done; `answerbus replay reopen` undoes that."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from answerbus.client.bus import Bus
from services.command_line import AsJson, Config, bus_of, stdout
from services.commands.long_task import HowEnded, leave, progress, stopping
from services.commands.replay import views
from services.commands.replay.loading import loading, report_unavailable_ids
from services.commands.replay.options import Ids, Limit, Since, Until, Where, selection_of
from services.operator_options import By, Reason, Yes, confirm, now, operator
from services.operators.adapters.dismissing import dismissing
from services.operators.adapters.writer import Superseded, writing
from services.operators.dead_letters.row import DeadLetterRow, Status
from services.operators.dead_letters.selection import Selection, select
from services.settings.settings import from_environment
from services.text.counted import count_text


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
    """Put open dead letters aside: no replay takes them any more. They are still kept."""
    selection = selection_of(where, ids, since, until, limit)
    bus, who = bus_of(from_environment(config).kafka), operator(by)
    done, ending = asyncio.run(_set_aside(bus, selection, who, reason, ask=not yes))
    _print_done(done, ending, "dismissed", as_json=as_json)


def reopen(
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
    """Undo dismissals: the dead letters are open again."""
    dismissed = frozenset[Status](("dismissed",))
    selection = replace(selection_of(where, ids, since, until, limit), statuses=dismissed)
    bus, who = bus_of(from_environment(config).kafka), operator(by)
    done, ending = asyncio.run(_set_aside(bus, selection, who, reason, ask=not yes, undone=True))
    _print_done(done, ending, "reopened", as_json=as_json)


def _print_done(done: Sequence[str], ending: HowEnded, became: str, *, as_json: bool) -> None:
    if as_json:
        views.print_json({"end": ending, became: len(done), "letters": done})
    else:
        stdout().print(f"Dead letters {became}: {len(done):,}.")
    leave(ending)


async def _set_aside(
    bus: Bus, selection: Selection, by: str, reason: str, *, ask: bool, undone: bool = False
) -> tuple[list[str], HowEnded]:
    status: Status = "dismissed" if undone else "open"
    async with loading(bus, models=selection.needs_models) as loaded:
        report_unavailable_ids(loaded.dead_letters, selection.ids, status)
        chosen = select(loaded.dead_letters, selection)
        if not chosen:
            return [], "done"
        if ask:
            what = count_text(len(chosen), "dead letter")
            confirm(f"{'Reopen' if undone else 'Dismiss'} {what} as {by}?")
        async with writing(bus) as writer:
            meant = await loaded.still(status, chosen)
            steps = dismissing(writer, meant, by, reason, now, undone=undone)
            return await _written(steps, len(meant), "reopening" if undone else "dismissing")


async def _written(
    steps: AsyncIterator[Sequence[DeadLetterRow]], count: int, what: str
) -> tuple[list[str], HowEnded]:
    done: list[str] = []
    with stopping() as stop, progress(what, count) as advance:
        try:
            async for step in steps:
                done += [dead_letter.id for dead_letter in step]
                advance(len(step))
                if stop.is_set() and len(done) < count:
                    return done, "stopped"
        except Superseded:
            return done, "superseded"
    return done, "done"
