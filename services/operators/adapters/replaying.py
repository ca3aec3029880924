"""Dead letters replayed, a transaction at a time."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from answerbus.client.bus import Bus
from services.operators.adapters.bodies import bodies
from services.operators.adapters.past_runs import past_runs
from services.operators.adapters.writer import CHANGES_MAX, Change, Writer
from services.operators.dead_letters.forecast import KnownNames, checked_replay
from services.operators.dead_letters.prepare_replay import (
    PreparedReplay,
    Rejection,
    ReplayOrder,
    prepare_repair,
    prepare_replay,
)
from services.operators.dead_letters.row import DeadLetterRow

BATCH_BYTES_MAX = 4 * 1024 * 1024  # of requests in a transaction

Prepared = tuple[DeadLetterRow, PreparedReplay | Rejection]


@dataclass(slots=True)
class Step:
    """What one transaction did: which letters were sent, and which before them were held back."""

    sent: list[tuple[DeadLetterRow, PreparedReplay]] = field(default_factory=list)
    held_back: list[tuple[DeadLetterRow, Rejection]] = field(default_factory=list)

    @property
    def outcomes(self) -> list[Prepared]:
        """The outcome of each dead letter."""
        return [*self.held_back, *self.sent]


async def prepared_replays(
    bus: Bus,
    letters: Collection[DeadLetterRow],
    order: ReplayOrder,
    known: KnownNames,
    now: Callable[[], datetime],
) -> AsyncIterator[Prepared]:
    """How each dead letter would end by the order; nothing is written. Raises BusUnavailable."""
    async with past_runs(bus, letters) as past:
        async for letter, body in bodies(bus, letters):
            if isinstance(body, Rejection):
                yield letter, body
                continue
            prepared = prepare_replay(body, order, now(), await past.of(body))
            yield letter, checked_replay(body, prepared, order, known)


async def prepared_repairs(
    bus: Bus,
    letters: Collection[DeadLetterRow],
    repaired: Mapping[str, bytes],
    order: ReplayOrder,
    now: Callable[[], datetime],
) -> AsyncIterator[Prepared]:
    """How each dead letter ends with its repaired record, found by the dead letter's id.

    Nothing is written. Raises BusUnavailable.
    """
    async for letter, body in bodies(bus, letters):
        if isinstance(body, Rejection):
            yield letter, body
        else:
            yield letter, prepare_repair(body, repaired[letter.id], order, now())


async def replaying(
    writer: Writer, outcomes: AsyncIterable[Prepared], *, at_once: int = CHANGES_MAX
) -> AsyncIterator[Step]:
    """Sends what can be sent, `at_once` in a transaction; each step that is given is committed.

    To stop, ask for no further step. Raises Superseded and BusUnavailable, as `Writer.commit`.
    """
    step, size = Step(), 0
    async for letter, outcome in outcomes:
        if isinstance(outcome, Rejection):
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
