"""The consumers of tool results, of controls, and of the cards of toolsets."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from answerbus.client.records.consumer import RecordConsumer
from services.command_line import bus_of
from services.kafka.options import topic_name
from services.settings.settings import Settings
from services.worker.adapters.kafka.accepted_tools import write_as_seen
from services.worker.adapters.kafka.card_reader import CardReader
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.run_reader import RunReader
from services.worker.core.run.known_tools import KnownTools
from services.worker.lane.context import LaneContext
from services.worker.lane.lifecycle import Lifecycle

# A fetch ends with the first record, and asking for nothing costs a millisecond or two of CPU each
# time. Questions about offsets wait behind it: at an opening, and before the end of a call's time.
FETCH_WAIT_MS = 250
RARE_FETCH_WAIT_MS = 500  # of cards; and of cancellations, where there are no agents
CARDS_WANTED_S = 1.0  # between looks whether an open run wants cards, where there are no agents


class SignalConsumer:
    """The consumer of signals of this moment; None before the first, and where none is read.

    `trouble` is why some are not read.
    """

    def __init__(self) -> None:
        self.trouble: str | None = None
        self._current: RecordConsumer | None = None

    def report(self, trouble: str | None) -> None:
        self.trouble = trouble

    def current(self) -> RecordConsumer | None:
        """It may be about to start, or closed."""
        return self._current

    def made(self, make: Callable[[], RecordConsumer]) -> RecordConsumer:
        self._current = make()
        return self._current


async def reading_for_runs(
    settings: Settings,
    options: Mapping[str, Any],
    context: LaneContext,
    known_tools: KnownTools,
    membership: Membership,
    signals: SignalConsumer,
) -> list["asyncio.Task[None]"]:
    """Start them; where there are agents, once the cards that are there are read.

    Without agents too: people cancel plain requests, and runs may be open from before. Cards are
    then read once such a run needs one.
    """
    if not context.runs.is_on:
        return []

    def consumer(wait_ms: int) -> RecordConsumer:
        return RecordConsumer(
            **options,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=wait_ms,
        )

    def lifecycles() -> Mapping[int, Lifecycle]:
        """Without lanes that only forward: the topics may have no such partition to read."""
        found, partitions = membership.lifecycles, context.partitions
        return {number: found[number] for number in found if number < partitions}

    wait_ms = FETCH_WAIT_MS if context.runs.has_agents else RARE_FETCH_WAIT_MS
    new_consumer = partial(signals.made, partial(consumer, wait_ms))
    name_of = partial(topic_name, settings.kafka)
    reader = RunReader(new_consumer, name_of, lifecycles, wait_ms, signals.report)
    planner = context.planner
    known_tools.accepted.guarded = lambda: planner.agents.guarded
    cards = CardReader(
        partial(consumer, RARE_FETCH_WAIT_MS),
        name_of,
        known_tools,
        planner.prepare_agents,
        lambda: planner.agents.toolsets,
        shared=settings.worker.shared_cards,
        costly_work=planner.costly_work,
        write=partial(write_as_seen, bus_of(settings.kafka), context.clock),
    )
    if not context.runs.has_agents:
        return [asyncio.create_task(it) for it in (_once_wanted(cards, known_tools), reader.run())]
    planner.catch_up = cards.catch_up
    reading_cards = asyncio.create_task(cards.run())
    await cards.until_read()
    await planner.prepare_agents()
    return [reading_cards, asyncio.create_task(reader.run())]


async def _once_wanted(cards: CardReader, known_tools: KnownTools) -> None:
    """Read cards from when an open run has a tool whose card must be known."""
    while not known_tools.wanted:
        await asyncio.sleep(CARDS_WANTED_S)
    await cards.run()
