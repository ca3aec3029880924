"""`answerbus replay dry-run` and `run`: the forecast of a replay, and the replay."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer

from answerbus.client.bus import Bus
from answerbus.dead_letter import Replayed
from services.command_line import AsJson, Config, bus_of, stderr, stdout
from services.commands.long_task import HowEnded, leave, progress, slept, stopping
from services.commands.replay import views
from services.commands.replay.loading import (
    loaded_once,
    loading,
    report_unavailable_ids,
    report_unclear_ids,
)
from services.commands.replay.options import (
    Budget,
    Edit,
    Force,
    Fresh,
    Ids,
    Limit,
    Profile,
    Restart,
    Since,
    Until,
    Where,
    allowance_of,
    edits_from,
    known_of,
    selection_of,
)
from services.operator_options import By, OptionalReason, Yes, confirm, now, operator
from services.operators.adapters.replaying import Prepared, ReplayStep, prepared_replays, replaying
from services.operators.adapters.writer import CHANGES_MAX, Superseded, Writer, writing
from services.operators.dead_letters.forecast import Forecast, KnownNames
from services.operators.dead_letters.prepare_replay import ReplayOrder
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.dead_letters.selection import Selection, select
from services.settings.settings import from_environment
from services.text.counted import count_text

Rate = Annotated[float | None, typer.Option("--rate", min=0.01, help="At most so many a second.")]


@dataclass(slots=True)
class Done:
    """The result by the end of the dead letters, or of the time."""

    sums: Forecast
    sent: list[Replayed] = field(default_factory=list)
    ended: HowEnded = "done"

    def take(self, step: ReplayStep) -> None:
        for dead_letter, outcome in step.outcomes:
            self.sums.take(dead_letter.key, outcome)
        self.sent += [prepared.replayed for _, prepared in step.sent]

    @property
    def count(self) -> int:
        """How many dead letters were looked at."""
        return self.sums.sendable + self.sums.held_back_count


async def send(
    writer: Writer,
    outcomes: AsyncIterator[Prepared],
    count: int,
    known: KnownNames,
    rate: float | None = None,
) -> Done:
    """Send `count` dead letters, at most `rate` a second. Raises BusUnavailable."""
    at_once = CHANGES_MAX if rate is None else max(1, int(min(CHANGES_MAX, rate)))
    done, began = Done(Forecast(known)), time.monotonic()
    with stopping() as stop, progress("sending", count) as advance:
        try:
            async for step in replaying(writer, outcomes, at_once=at_once):
                done.take(step)
                advance(len(step.outcomes))
                if done.count >= count:
                    continue
                if rate is not None:
                    await slept(stop, began + len(done.sent) / rate - time.monotonic())
                if stop.is_set():
                    done.ended = "stopped"
                    break
        except Superseded:
            done.ended = "superseded"
    return done


def dry_run(
    *,
    where: Where = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    edit: Edit = None,
    profile: Profile = None,
    budget: Budget = None,
    fresh: Fresh = False,
    restart: Restart = False,
    force: Force = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Say what `run` would do, at what cost at worst, and what it would hold back and why.

    Exit code 1 if it would hold back any dead letter.
    """
    selection = selection_of(where, ids, since, until, limit)
    order = ReplayOrder(
        by="",
        reason="",
        edits=edits_from(edit),
        profile=profile,
        budget=allowance_of(budget),
        keep_prior=not fresh,
        restart=restart,
        force=force,
    )
    settings = from_environment(config)
    task = Task(bus_of(settings.kafka), selection, order, known_of(settings))
    forecast = asyncio.run(_dry_run(task))
    if as_json:
        views.print_json(views.forecast_data(forecast))
    else:
        stdout().print(*views.forecast_lines(forecast, "to be replayed"), sep="\n")
    if forecast.held_back:
        raise typer.Exit(1)


def run(
    *,
    where: Where = None,
    ids: Ids = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    edit: Edit = None,
    profile: Profile = None,
    budget: Budget = None,
    rate: Rate = None,
    fresh: Fresh = False,
    restart: Restart = False,
    force: Force = False,
    by: By = None,
    reason: OptionalReason = "",
    yes: Yes = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Send the requests of open dead letters again, each once, however often this is run.

    Ctrl-C stops after the transaction under way; the same command goes on with the rest.
    Exit code 1 if dead letters were held back.
    """
    selection = selection_of(where, ids, since, until, limit)
    order = ReplayOrder(
        by=operator(by),
        reason=reason,
        edits=edits_from(edit),
        profile=profile,
        budget=allowance_of(budget),
        keep_prior=not fresh,
        restart=restart,
        force=force,
    )
    settings = from_environment(config)
    task = Task(bus_of(settings.kafka), selection, order, known_of(settings), rate)
    print_done(asyncio.run(replayed(task, ask=not yes)), "replayed", as_json=as_json)


def print_done(done: Done, became: str, *, as_json: bool) -> None:
    """Raises typer.Exit if not all was done."""
    if as_json:
        views.print_json(views.done_data(done.sent, done.sums, done.ended))
    else:
        stdout().print(*views.forecast_lines(done.sums, became), sep="\n")
    leave(done.ended)
    if done.sums.held_back:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Task:
    """The order of `run`, at most `rate` dead letters a second."""

    bus: Bus
    selection: Selection
    order: ReplayOrder
    known: KnownNames
    rate: float | None = None

    def outcomes(self, dead_letters: Sequence[DeadLetterRow]) -> AsyncIterator[Prepared]:
        """How the replay of these dead letters ends."""
        return prepared_replays(self.bus, dead_letters, self.order, self.known, now)


async def _dry_run(task: Task) -> Forecast:
    dead_letters = await loaded_once(task.bus, models=task.selection.needs_models)
    report_unavailable_ids(dead_letters, task.selection.ids)
    report_unclear_ids(dead_letters, task.order.edits.by_dead_letter)
    return await _forecast(task, select(dead_letters, task.selection))


async def _forecast(task: Task, chosen: Sequence[DeadLetterRow]) -> Forecast:
    forecast = Forecast(task.known)
    with progress("trying", len(chosen)) as advance:
        async for dead_letter, outcome in task.outcomes(chosen):
            forecast.take(dead_letter.key, outcome)
            advance(1)
    return forecast


async def replayed(task: Task, *, ask: bool) -> Done:
    """Carry out the task; dead letters that others settle meanwhile are left alone."""
    async with loading(task.bus, models=task.selection.needs_models) as loaded:
        report_unavailable_ids(loaded.dead_letters, task.selection.ids)
        report_unclear_ids(loaded.dead_letters, task.order.edits.by_dead_letter)
        chosen = select(loaded.dead_letters, task.selection)
        if not chosen:
            return Done(Forecast(task.known))
        if ask or task.order.restart:  # which tools have run is said before any runs again
            forecast = await _forecast(task, chosen)
            if ask and not forecast.sendable:
                return Done(forecast)
            stderr().print(*views.forecast_lines(forecast, "to be replayed"), sep="\n")
        if ask:
            what = count_text(forecast.sendable, "dead letter")
            confirm(f"Replay {what} as {task.order.by}?")
        async with writing(task.bus) as writer:
            still_open = await loaded.still("open", chosen)
            return await send(
                writer, task.outcomes(still_open), len(still_open), task.known, task.rate
            )
