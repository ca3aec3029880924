"""Dead letters with their bodies, read from their topic."""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from answerbus.client.bus import Bus
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import Undecodable, decode
from answerbus.topics import DEAD_LETTERS
from answerbus.trace import read_trace
from services.operators.adapters.picker import picking
from services.operators.adapters.reader import reading
from services.operators.dead_letters.prepare_replay import Rejection
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.explain import problem_text
from services.operators.records.stored import Stored

PICKED_MAX = 50  # dead letters; for more, to read the topic from its start is faster

Body = DeadLetter | Rejection


async def bodies(
    bus: Bus, dead_letters: Collection[DeadLetterRow]
) -> AsyncGenerator[tuple[DeadLetterRow, Body]]:
    """Each dead letter whole, or why it cannot be had; those of a partition in their order there.

    Raises BusUnavailable.
    """
    if not dead_letters:
        return
    found = _picked if len(dead_letters) <= PICKED_MAX else _read
    async with aclosing(found(bus, dead_letters)) as records:
        async for dead_letter, stored in records:
            dead_letter.trace = read_trace(stored.headers) if stored else None
            yield dead_letter, _body(stored)


async def _picked(
    bus: Bus, dead_letters: Collection[DeadLetterRow]
) -> AsyncGenerator[tuple[DeadLetterRow, Stored | None]]:
    async with picking(bus) as picker:
        for dead_letter in dead_letters:
            yield dead_letter, await picker.pick(dead_letter.place)


async def _read(
    bus: Bus, dead_letters: Collection[DeadLetterRow]
) -> AsyncGenerator[tuple[DeadLetterRow, Stored | None]]:
    missing = {
        (dead_letter.place.partition, dead_letter.place.offset): dead_letter
        for dead_letter in dead_letters
    }
    async with reading(bus, (DEAD_LETTERS,)) as reader:
        async for batch in reader.to_end():
            for stored in batch:
                dead_letter = missing.pop((stored.partition, stored.offset), None)
                if dead_letter is not None:
                    yield dead_letter, stored
            if not missing:
                return
    for dead_letter in missing.values():
        yield dead_letter, None


def _body(stored: Stored | None) -> Body:
    if stored is None:
        return Rejection("gone", "Its record is no longer kept")
    if stored.fault is not None:
        message = problem_text(stored.fault)
        return Rejection("unreadable", f"Its record cannot be read: {message}")
    event = decode(stored.value, stored.headers)
    match event:
        case DeadLetter():
            return event
        case Undecodable():
            message = problem_text(event.problems[0])
            return Rejection("unreadable", f"Its record is not a readable dead letter: {message}")
        case _:
            return Rejection("unreadable", "Its record is another event")
