"""Writes how tools that need approval were seen first, for workers that start later."""

from collections.abc import Collection

from answerbus.client.bounded import bounded
from answerbus.client.bus import Bus
from answerbus.envelope import encode
from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ToolAccepted
from answerbus.topics import ACCEPTED_TOOLS
from services.worker.ports.clock import Clock

WRITE_S = 10.0


async def write_as_seen(bus: Bus, clock: Clock, tools: Collection[ToolDefinition]) -> None:
    """As they are; connects each time, since new ones are rare. Raises KafkaError, TimeoutError."""
    now = clock.now()
    seen = ((tool.toolset, tool.card, tool.written_by) for tool in tools)
    await write_accepted(
        bus,
        [ToolAccepted(toolset=name, card=card, written_by=by, at=now) for name, card, by in seen],
    )


async def write_accepted(bus: Bus, records: Collection[ToolAccepted]) -> None:
    """All into the partition that workers read. Raises KafkaError, TimeoutError."""
    place = bus.place(ACCEPTED_TOOLS, 0)
    async with bus.running(bus.producer()) as producer:
        for record in records:
            encoded = encode(record)
            sent = producer.send_and_wait(
                place.topic, encoded.value, encoded.key, place.partition, headers=encoded.headers
            )
            await bounded(sent, WRITE_S)
