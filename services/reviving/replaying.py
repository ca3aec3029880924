"""Letters replayed, a transaction at a time."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from answerbus.client.bus import Bus
from services.letters.forecast import Known, judged
from services.letters.letter import Letter
from services.letters.revive import Order, Revived, Trouble, mend, revive
from services.reviving.bodies import bodies
from services.reviving.writer import CHANGES_MAX, Change, Writer

BATCH_BYTES_MAX = 4 * 1024 * 1024  # of requests in a transaction

Outcome = tuple[Letter, Revived | Trouble]


@dataclass(slots=True)
class Step:
    """What one transaction did: which letters were sent, and which before them were held back."""

    sent: list[tuple[Letter, Revived]] = field(default_factory=list)
    held_back: list[tuple[Letter, Trouble]] = field(default_factory=list)

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of each letter."""
        return [*self.held_back, *self.sent]


async def revived(
    bus: Bus, letters: Collection[Letter], order: Order, known: Known, now: Callable[[], datetime]
) -> AsyncIterator[Outcome]:
    """What becomes of each letter by the order; nothing is written. Raises BusUnavailable."""
    async for letter, body in bodies(bus, letters):
        if isinstance(body, Trouble):
            yield letter, body
        else:
            yield letter, judged(body, revive(body, order, now()), order, known)


async def mended(
    bus: Bus,
    letters: Collection[Letter],
    repaired: Mapping[str, bytes],
    order: Order,
    now: Callable[[], datetime],
) -> AsyncIterator[Outcome]:
    """What becomes of each letter with its repaired record, found by the letter's id.

    Nothing is written. Raises BusUnavailable.
    """
    async for letter, body in bodies(bus, letters):
        if isinstance(body, Trouble):
            yield letter, body
        else:
            yield letter, mend(body, repaired[letter.id], order, now())


async def replaying(
    writer: Writer, outcomes: AsyncIterable[Outcome], *, at_once: int = CHANGES_MAX
) -> AsyncIterator[Step]:
    """Sends what can be sent, `at_once` in a transaction; each step that is given is committed.

    To stop, ask for no further step. Raises Superseded and BusUnavailable, as `Writer.commit`.
    """
    step, size = Step(), 0
    async for letter, outcome in outcomes:
        if isinstance(outcome, Trouble):
            step.held_back.append((letter, outcome))
            continue
        step.sent.append((letter, outcome))
        size += len(outcome.request.model_dump_json())
        if len(step.sent) >= at_once or size >= BATCH_BYTES_MAX:
            await _commit(writer, step)
            yield step
            step, size = Step(), 0
    await _commit(writer, step)
    yield step


async def _commit(writer: Writer, step: Step) -> None:
    if step.sent:
        await writer.commit(
            [Change(found, letter.place.partition, letter.trace) for letter, found in step.sent]
        )
