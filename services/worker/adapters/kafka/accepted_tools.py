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


class AcceptedToolsWriter:
    """Connects for each writing: tools that need approval are new seldom."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock = bus, clock

    async def __call__(self, tools: Collection[ToolDefinition]) -> None:
        """As they are. Raises KafkaError, TimeoutError."""
        await write_accepted(
            self._bus,
            [
                ToolAccepted(
                    toolset=tool.toolset,
                    card=tool.card,
                    written_by=tool.written_by,
                    at=self._clock.now(),
                )
                for tool in tools
            ],
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
