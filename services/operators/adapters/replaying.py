"""Dead letters replayed, a transaction at a time."""

from collections import defaultdict
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from answerbus.client.bus import Bus
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import decode
from answerbus.request_key import RequestKey
from answerbus.resumed_run import RunResumed
from answerbus.toolset_card import Delivery, ToolsetCard
from answerbus.topics import APPROVALS, STEPS, card_owner
from services.operators.adapters.bodies import bodies
from services.operators.adapters.picker import Picker, picking
from services.operators.adapters.reader import reading
from services.operators.adapters.writer import CHANGES_MAX, DeadLetterChange, Writer
from services.operators.dead_letters.effects import OF_A_CALL
from services.operators.dead_letters.forecast import KnownNames, checked_replay
from services.operators.dead_letters.past_run import PastRun, past_run
from services.operators.dead_letters.prepare_replay import (
    PreparedReplay,
    Rejection,
    ReplayOrder,
    prepare_repair,
    prepare_replay,
)
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.records.dead_letter_key import DeadLetterKey
from services.operators.records.stored import RecordPosition, Stored
from services.operators.records.summary import summarize

BATCH_BYTES_MAX = 4 * 1024 * 1024  # of requests in a transaction

Prepared = tuple[DeadLetterRow, PreparedReplay | Rejection]


@dataclass(slots=True)
class ReplayStep:
    """The dead letters that one transaction sent, and those before them that were held back."""

    sent: list[tuple[DeadLetterRow, PreparedReplay]] = field(default_factory=list)
    held_back: list[tuple[DeadLetterRow, Rejection]] = field(default_factory=list)

    @property
    def outcomes(self) -> list[Prepared]:
        """The outcome of each dead letter."""
        return [*self.held_back, *self.sent]


async def prepared_replays(
    bus: Bus,
    dead_letters: Collection[DeadLetterRow],
    order: ReplayOrder,
    known: KnownNames,
    now: Callable[[], datetime],
) -> AsyncIterator[Prepared]:
    """How each dead letter would end by the order; nothing is written. Raises BusUnavailable."""
    async with past_runs(bus, dead_letters) as past:
        async for dead_letter, body in bodies(bus, dead_letters):
            if isinstance(body, Rejection):
                yield dead_letter, body
                continue
            prepared = prepare_replay(body, order, now(), await past.of(body))
            yield dead_letter, checked_replay(body, prepared, order, known)


async def prepared_repairs(
    bus: Bus,
    dead_letters: Collection[DeadLetterRow],
    repaired: Mapping[DeadLetterKey, bytes],
    order: ReplayOrder,
    now: Callable[[], datetime],
) -> AsyncIterator[Prepared]:
    """How each dead letter ends with its repaired record.

    Nothing is written. Raises BusUnavailable.
    """
    async for dead_letter, body in bodies(bus, dead_letters):
        if isinstance(body, Rejection):
            yield dead_letter, body
        else:
            yield dead_letter, prepare_repair(body, repaired[dead_letter.key], order, now())


async def replaying(
    writer: Writer, outcomes: AsyncIterable[Prepared], *, at_once: int = CHANGES_MAX
) -> AsyncIterator[ReplayStep]:
    """Sends what can be sent, `at_once` in a transaction; each step that is given is committed.

    To stop, ask for no further step. Raises Superseded and BusUnavailable, as `Writer.commit`.
    """
    step, size = ReplayStep(), 0
    async for dead_letter, outcome in outcomes:
        if isinstance(outcome, Rejection):
            step.held_back.append((dead_letter, outcome))
            continue
        step.sent.append((dead_letter, outcome))
        size += len(outcome.request.model_dump_json())
        if len(step.sent) >= at_once or size >= BATCH_BYTES_MAX:
            await _commit(writer, step)
            yield step
            step, size = ReplayStep(), 0
    await _commit(writer, step)
    yield step


async def _commit(writer: Writer, step: ReplayStep) -> None:
    if step.sent:
        await writer.commit(
            [
                DeadLetterChange(found, dead_letter.place.partition, dead_letter.trace)
                for dead_letter, found in step.sent
            ]
        )


@dataclass(slots=True)
class PastRuns:
    """Where the steps of each run stand, and how the tools are called that are announced now.

    `resumptions` are those of the runs, by operators; `below` are the steps of the runs that they
    asked, by the id that theirs begin with.
    """

    picker: Picker | None = None
    places: defaultdict[RequestKey, list[RecordPosition]] = field(
        default_factory=lambda: defaultdict(list)
    )
    below: defaultdict[RequestKey, list[RecordPosition]] = field(
        default_factory=lambda: defaultdict(list)
    )
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    resumptions: list[RunResumed] = field(default_factory=list)
    unseen: Sequence[str] = ()  # topics of runs that are not there, or hidden from this user

    async def of(self, dead_letter: DeadLetter) -> PastRun:
        """The steps that the run of a dead letter had done. Raises BusUnavailable."""
        name = RequestKey(dead_letter.workflow_id or "", dead_letter.request_id or "")
        records = await self._picked(self.places.get(name, []))
        places = [place for first in _prefixes(name) for place in self.below.get(first, [])]
        below = await self._picked(places)
        found = past_run(dead_letter, records, self.deliveries, below, self.resumptions)
        if found.fault is None or not self.unseen:
            return found
        topics = " or ".join(self.unseen)
        return PastRun(fault=f"{found.fault} (there is no topic {topics}, or no right to see it)")

    async def _picked(self, places: Sequence[RecordPosition]) -> list[Stored]:
        return await self.picker.pick_all(places) if self.picker and places else []

    def take(self, batch: Sequence[Stored], runs: Collection[RequestKey]) -> None:
        """Records of steps and of cards."""
        for stored in batch:
            if toolset := card_owner(stored.topic):
                self._take_card(stored, toolset)
            elif stored.topic is APPROVALS:
                self._take_resumption(stored, runs)
            elif (summary := summarize(stored)).request_id and summary.workflow_id:
                name = RequestKey(summary.workflow_id, summary.request_id)
                self._take_step(stored, name, runs)

    def _take_resumption(self, stored: Stored, runs: Collection[RequestKey]) -> None:
        event = decode(stored.value, stored.headers)
        if (
            isinstance(event, RunResumed)
            and RequestKey(event.workflow_id, event.request_id) in runs
        ):
            self.resumptions.append(event)

    def _take_step(self, stored: Stored, name: RequestKey, runs: Collection[RequestKey]) -> None:
        if name in runs:
            self.places[name].append(stored.place)
        first, of_a_call, _ = name.request_id.partition(OF_A_CALL)
        above = name._replace(request_id=first)
        if of_a_call and above in runs:
            self.below[above].append(stored.place)

    def _take_card(self, stored: Stored, toolset: str) -> None:
        for name in [name for name in self.deliveries if name.partition(".")[0] == toolset]:
            del self.deliveries[name]
        card = decode(stored.value, stored.headers) if stored.value is not None else None
        if isinstance(card, ToolsetCard) and card.toolset == toolset:
            for tool in card.tools:
                self.deliveries[f"{card.toolset}.{tool.name}"] = tool.delivery


@asynccontextmanager
async def past_runs(bus: Bus, dead_letters: Collection[DeadLetterRow]) -> AsyncIterator[PastRuns]:
    """The runs of these dead letters; reads nothing if none is of a run. Raises BusUnavailable."""
    runs = runs_to_read(
        RequestKey(dead_letter.workflow_id, dead_letter.request_id)
        for dead_letter in dead_letters
        if dead_letter.agent and dead_letter.request_id and dead_letter.workflow_id
    )
    found = PastRuns()
    present = (*await bus.present(STEPS, APPROVALS), *await bus.card_topics()) if runs else ()
    wanted = (STEPS, APPROVALS) if runs else ()
    found.unseen = [topic.full_name(bus.prefix) for topic in wanted if topic not in present]
    if not present:
        yield found
        return
    async with reading(bus, present) as reader:
        async for batch in reader.to_end():
            found.take(batch, runs)
    async with picking(bus) as found.picker:
        yield found


def runs_to_read(died: Iterable[RequestKey]) -> frozenset[RequestKey]:
    """Requests whose steps are read: these runs, and those that they go on from."""
    return frozenset(first for name in died for first in _prefixes(name))


def _prefixes(name: RequestKey) -> tuple[RequestKey, ...]:
    """A run, that which a replay goes on from, and that which ids of a child's children name."""
    own = name.request_id
    above = (own, own.partition(".replay.")[0], own.partition(OF_A_CALL)[0])
    return tuple(name._replace(request_id=one) for one in dict.fromkeys(above))
