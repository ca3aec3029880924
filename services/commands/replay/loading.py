"""Loads the dead letters of a broker to the end of their topics, with a progress bar."""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import typer

from answerbus.client.bus import Bus
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, Topic
from services.command_line import stderr
from services.commands.long_task import progress
from services.operators.adapters.reader import Reader, reading
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.row import DeadLetterRow, Status
from services.operators.dead_letters.selection import Selection
from services.operators.records.summary import summarize
from services.text.escaping import plain_line

LINES_MAX = 5


@dataclass(slots=True)
class Loaded:
    """The dead letters so far, and the reader that goes on from there."""

    reader: Reader
    dead_letters: DeadLetterIndex = field(default_factory=DeadLetterIndex)

    async def catch_up(self) -> None:
        """Read what has come since. Raises BusUnavailable."""
        await _fold(self.reader, self.dead_letters, "reading dead letters")

    async def still(self, status: Status, chosen: Iterable[DeadLetterRow]) -> list[DeadLetterRow]:
        """Those that still have that status; raises BusUnavailable.

        Ask once there is a writer: from then on no other can settle any.
        """
        await self.catch_up()
        return [dead_letter for dead_letter in chosen if dead_letter.status == status]


@asynccontextmanager
async def loading(
    bus: Bus, topics: Collection[Topic] = (DEAD_LETTERS,), *, models: bool = False
) -> AsyncIterator[Loaded]:
    """All dead letters as they are now, on request with the models that were asked.

    Raises BusUnavailable.
    """
    async with reading(bus, topics) as reader:
        loaded = Loaded(reader)
        await loaded.catch_up()
        if models:
            async with reading(bus, (ATTEMPTS,)) as attempts:
                await _fold(attempts, loaded.dead_letters, "reading attempts")
        yield loaded


async def loaded_once(
    bus: Bus, topics: Collection[Topic] = (DEAD_LETTERS,), *, models: bool = False
) -> DeadLetterIndex:
    """The same, for those who need no more than that."""
    async with loading(bus, topics, models=models) as loaded:
        return loaded.dead_letters


async def _fold(reader: Reader, dead_letters: DeadLetterIndex, what: str) -> None:
    with progress(what, await reader.left()) as advance:
        async for batch in reader.to_end():
            for stored in batch:
                dead_letters.take(summarize(stored))
            advance(len(batch))


def report_unavailable_ids(
    dead_letters: DeadLetterIndex, ids: Collection[str], status: Status = "open"
) -> None:
    """Say which dead letters of those that were named have another status, and why.

    Raises typer.Exit if some are unknown, or if an id is of several workflows: none is chosen then.
    """
    ones = [one for named in sorted(ids) for one in dead_letters.named(named)]
    _say([_settled(one) for one in ones if one.status != status], "yellow")
    report_unclear_ids(dead_letters, ids)


def _unknown(dead_letters: DeadLetterIndex, dead_letter_id: str) -> str:
    """Suggests the dead letter of a request whose id was given."""
    request_id, at, workflow_id = dead_letter_id.partition("@")
    meant = f"{request_id}.dead-letter{at}{workflow_id}"
    hint = f" Is {meant} meant?" if dead_letters.named(meant) else ""
    return f"There is no dead letter {dead_letter_id}.{hint}"


def report_unclear_ids(dead_letters: DeadLetterIndex, ids: Collection[str]) -> None:
    """List ids that are unknown, and what those of several workflows may mean.

    Raises typer.Exit if there are any.
    """
    found = {dead_letter_id: dead_letters.named(dead_letter_id) for dead_letter_id in sorted(ids)}
    unknown = [_unknown(dead_letters, one) for one, them in found.items() if not them]
    _say(unknown, "red")
    ambiguous = {dead_letter_id: them for dead_letter_id, them in found.items() if len(them) > 1}
    for dead_letter_id, them in ambiguous.items():
        message = (
            f"{len(them)} dead letters have the id {dead_letter_id}: name one with its workflow."
        )
        _say([message, *(f"  {one.key.text}" for one in them)], "red")
    if unknown or ambiguous:
        raise typer.Exit(1)


def report_unlisted_ids(dead_letters: DeadLetterIndex, selection: Selection) -> None:
    """Say which dead letters that were named are not in a list, and why.

    Raises typer.Exit if some are unknown.
    """
    named = {one: dead_letters.named(one) for one in sorted(selection.ids)}
    others = (one for them in named.values() for one in them)
    _say([_settled(one) for one in others if one.status not in selection.statuses], "yellow")
    if unknown := [_unknown(dead_letters, one) for one, them in named.items() if not them]:
        _say(unknown, "red")
        raise typer.Exit(1)


def _settled(dead_letter: DeadLetterRow) -> str:
    if dead_letter.replay:
        return f"{dead_letter.id} was replayed already, as {dead_letter.replay.request_id}."
    if aside := dead_letter.dismissal:
        return f"{dead_letter.id} was dismissed by {aside.by}: {aside.reason}"
    return f"{dead_letter.id} is open."


def _say(lines: Sequence[str], style: str) -> None:
    console = stderr()
    for line in lines[:LINES_MAX]:
        console.print(plain_line(line), style=style, markup=False)
    if len(lines) > LINES_MAX:
        console.print(f"And {len(lines) - LINES_MAX:,} more like that.", style=style)
