"""Writes what was compared to the topic of comparisons, and nowhere else."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
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
CLAIM = timedelta(hours=2)  # by then the first answer is written, also of the slowest profile
_CLAIM_HEADER, _RELEASE_HEADER = "answerbus_claim", "answerbus_claim_released"

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


async def claim_name(bus: Bus, name: str) -> bytes | None:
    """Take a name with a record without a value; None if another has it.

    It is taken for the time of `CLAIM`, or until `release_name`. The topic has one partition, so
    that of two at once one is the first. Raises BusUnavailable.
    """
    key, claim = name.encode(), secrets.token_hex().encode()
    since = moment(await _write_header(bus, key, _CLAIM_HEADER, claim)) - CLAIM
    claims: dict[bytes | None, None] = {}  # a producer may write its record twice
    async with reading(bus, (COMPARISONS,), since=since) as reader:
        async for stored in reader.records():
            if stored.value is None and stored.key == key:
                _take(claims, stored.headers)
    if next(iter(claims), None) == claim:
        return claim
    await release_name(bus, name, claim)
    return None


async def release_name(bus: Bus, name: str, claim: bytes) -> None:
    """Let others take a name under which nothing is recorded. Raises BusUnavailable."""
    await _write_header(bus, name.encode(), _RELEASE_HEADER, claim)


def _take(claims: dict[bytes | None, None], headers: Iterable[tuple[str, bytes | None]]) -> None:
    for header, claim in headers:
        if header == _CLAIM_HEADER:
            claims.setdefault(claim)
        elif header == _RELEASE_HEADER:
            claims.pop(claim, None)


async def _write_header(bus: Bus, key: bytes, header: str, value: bytes) -> int:
    """Write a record with a header alone; gives its time in ms."""
    place = bus.place(COMPARISONS, 0)
    async with bus.running(bus.producer()) as producer:
        with bus.explained():
            sent = producer.send_and_wait(
                place.topic, None, key, place.partition, headers=[(header, value)]
            )
            written = await bounded(sent, WRITE_S)
    return int(written.timestamp)
