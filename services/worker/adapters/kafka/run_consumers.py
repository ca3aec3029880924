"""The two consumers of a worker with agents: what is said to its runs, and the cards of tools."""

import asyncio
from collections.abc import Callable, Mapping
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

FETCH_WAIT_MS = 100  # a question about offsets waits behind a fetch that waits for records


async def reading_for_runs(
    settings: KafkaSettings,
    options: Mapping[str, Any],
    known_tools: KnownTools,
    lifecycles: Callable[[], Mapping[int, Lifecycle]],
) -> list["asyncio.Task[None]"]:
    """Start both, once the cards that stand there are read."""
    new_consumer = partial(
        RecordConsumer,
        **options,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=FETCH_WAIT_MS,
    )

    def name_of(topic: Topic) -> str:
        return topic_name(settings, topic)

    cards = CardReader(new_consumer, name_of, known_tools)
    reading_cards = asyncio.create_task(cards.run())
    await cards.until_read()
    said = RunReader(new_consumer, name_of, lifecycles)
    return [reading_cards, asyncio.create_task(said.run())]
