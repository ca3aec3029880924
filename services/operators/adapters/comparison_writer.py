"""Writes what was compared to the topic of comparisons, and nowhere else."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from answerbus.broker_time import moment
from answerbus.client.bounded import bounded
from answerbus.client.bus import Bus
from answerbus.compared import Compared
from answerbus.envelope import COMPARE_SOURCE, encode
from answerbus.topics import COMPARISONS
from services.operators.adapters.reader import reading

WRITE_S = 30.0
CLAIM = timedelta(days=1)  # far longer than it takes to draw a sample
_CLAIM_HEADER = "answerbus_claim"

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


async def claim_name(bus: Bus, name: str) -> bool:
    """Take a name with a record without a value; False if another has in the last day.

    The topic has one partition, so that of two at once one is the first. Raises BusUnavailable.
    """
    place, key = bus.place(COMPARISONS, 0), name.encode()
    claim = (_CLAIM_HEADER, secrets.token_hex().encode())  # a producer may write its record twice
    async with bus.running(bus.producer()) as producer:
        with bus.explained():
            sent = producer.send_and_wait(place.topic, None, key, place.partition, headers=[claim])
            written = await bounded(sent, WRITE_S)
    async with reading(bus, (COMPARISONS,), since=moment(written.timestamp) - CLAIM) as reader:
        async for batch in reader.to_end():
            for stored in batch:
                if stored.value is None and stored.key == key:
                    return claim in stored.headers
    return False
