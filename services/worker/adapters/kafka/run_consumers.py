"""The consumers of what people and tools say to requests, and of the cards of tools for agents."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from answerbus.client.records.consumer import RecordConsumer
from answerbus.topics import Topic
from services.kafka import topic_name
from services.settings import KafkaSettings
from services.worker.adapters.kafka.card_reader import CardReader
from services.worker.adapters.kafka.run_reader import RunReader
from services.worker.core.run.known_tools import KnownTools
from services.worker.lane.lifecycle import Lifecycle

# A fetch ends with the first record, and asking for nothing costs a millisecond or two of CPU each
# time. Questions about offsets wait behind it: at an opening, and before the end of a call's time.
FETCH_WAIT_MS = 250
RARE_FETCH_WAIT_MS = 500  # of cards; and of cancellations, where there are no agents


async def reading_for_runs(
    settings: KafkaSettings,
    options: Mapping[str, Any],
    known_tools: KnownTools,
    lifecycles: Callable[[], Mapping[int, Lifecycle]],
    *,
    prepare: Callable[[], Awaitable[None]] | None,
) -> list["asyncio.Task[None]"]:
    """Start them; where there are agents, once the cards that stand there are read.

    `prepare` does what new cards ask for; None: there are no agents.
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

    wait_ms = FETCH_WAIT_MS if prepare else RARE_FETCH_WAIT_MS
    said = RunReader(partial(consumer, wait_ms), name_of, lifecycles, poll_ms=wait_ms)
    if prepare is None:
        return [asyncio.create_task(said.run())]
    cards = CardReader(partial(consumer, RARE_FETCH_WAIT_MS), name_of, known_tools, prepare)
    reading_cards = asyncio.create_task(cards.run())
    await cards.until_read()
    await prepare()
    return [reading_cards, asyncio.create_task(said.run())]
