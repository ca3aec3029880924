"""The consumers of tool results, of controls, and of the cards of toolsets."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

from answerbus.client.records.consumer import RecordConsumer
from answerbus.private.runs import ToolDefinition
from answerbus.topics import Topic
from services.kafka.options import topic_name
from services.settings.settings import KafkaSettings
from services.worker.adapters.kafka.card_reader import CardReader
from services.worker.adapters.kafka.run_reader import RunReader
from services.worker.core.run.known_tools import KnownTools
from services.worker.lane.lifecycle import Lifecycle
from services.worker.planning.planner import Planner

# A fetch ends with the first record, and asking for nothing costs a millisecond or two of CPU each
# time. Questions about offsets wait behind it: at an opening, and before the end of a call's time.
FETCH_WAIT_MS = 250
RARE_FETCH_WAIT_MS = 500  # of cards; and of cancellations, where there are no agents


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
    settings: KafkaSettings,
    options: Mapping[str, Any],
    known_tools: KnownTools,
    lifecycles: Callable[[], Mapping[int, Lifecycle]],
    planner: Planner | None,
    signals: SignalConsumer,
    *,
    keep: Callable[[Collection[ToolDefinition]], Awaitable[None]],
    shared_cards: bool,
) -> list["asyncio.Task[None]"]:
    """Start them; where there are agents, once the cards that are there are read.

    `planner` compiles what new cards ask for, and waits for cards; None: there are no agents.
    `keep` writes down tools that need approval, as they were seen first.
    """

    def consumer(wait_ms: int) -> RecordConsumer:
        return RecordConsumer(
            **options,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=wait_ms,
        )

    def name_of(topic: Topic) -> str:
        return topic_name(settings, topic)

    wait_ms = FETCH_WAIT_MS if planner else RARE_FETCH_WAIT_MS
    new_consumer = partial(signals.made, partial(consumer, wait_ms))
    reader = RunReader(new_consumer, name_of, lifecycles, wait_ms, signals.report)
    if planner is None:
        return [asyncio.create_task(reader.run())]
    rarely = partial(consumer, RARE_FETCH_WAIT_MS)
    known_tools.accepted.guarded = lambda: planner.agents.guarded
    cards = CardReader(
        rarely,
        name_of,
        known_tools,
        planner.prepare_agents,
        lambda: planner.agents.toolsets,
        shared=shared_cards,
        costly_work=planner.costly_work,
        write=keep,
    )
    planner.catch_up = cards.catch_up
    reading_cards = asyncio.create_task(cards.run())
    await cards.until_read()
    await planner.prepare_agents()
    return [reading_cards, asyncio.create_task(reader.run())]
