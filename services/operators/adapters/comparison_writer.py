"""Writes what was compared to the topic of comparisons, and nowhere else."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from answerbus.client.bounded import bounded
from answerbus.client.bus import Bus
from answerbus.compared import Compared
from answerbus.envelope import COMPARE_SOURCE, encode
from answerbus.topics import COMPARISONS

WRITE_S = 30.0

WriteCompared = Callable[[Compared], Awaitable[None]]


@asynccontextmanager
async def writing_comparisons(bus: Bus) -> AsyncIterator[WriteCompared]:
    """Gives what writes one record, and has it when it returns. Raises BusUnavailable."""
    async with bus.running(bus.producer()) as producer:

        async def write(compared: Compared) -> None:
            place, record = bus.place(COMPARISONS, 0), encode(compared, source=COMPARE_SOURCE)
            with bus.explained():
                sent = producer.send_and_wait(
                    place.topic, record.value, record.key, place.partition, headers=record.headers
                )
                await bounded(sent, WRITE_S)

        yield write
