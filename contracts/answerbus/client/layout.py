"""Reads how many partitions a deployment uses, from what its lanes wrote into the ledger."""

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from pydantic import ValidationError

from answerbus.ledger import LANE_KEY, LEDGER_RECORD, LaneRecord
from answerbus.partition import Layout

LOOK_TIMEOUT_S = 30.0
TAIL_RECORDS = 500  # a lane writes its record every few minutes, so that it stands near the end
_TAIL_FACTOR = 8
_POLL_MS = 500
_KEY = LANE_KEY.encode()


async def written_layout(consumer: AIOKafkaConsumer, ledger: str, partitions: int) -> Layout | None:
    """What the first lane that has a record says; None if no lane was ever opened.

    The consumer reads committed records and is assigned to what it needs. Raises what it raises,
    and TimeoutError.
    """
    async with asyncio.timeout(LOOK_TIMEOUT_S):
        places = [TopicPartition(ledger, number) for number in range(partitions)]
        starts = await consumer.beginning_offsets(places)
        ends = await consumer.end_offsets(places)
        for place in places:
            consumer.assign([place])
            if found := await _last(consumer, place, starts[place], ends[place]):
                return Layout(found.partitions, found.earlier, found.moving_to)
    return None


async def _last(
    consumer: AIOKafkaConsumer, place: TopicPartition, start: int, end: int
) -> LaneRecord | None:
    """The last record of the lane in a partition of the ledger, looked for from its end."""
    reach, until = TAIL_RECORDS, end
    while until > start:
        begin = max(start, end - reach)
        if found := await _last_between(consumer, place, begin, until):
            return found
        reach, until = reach * _TAIL_FACTOR, begin
    return None


async def _last_between(
    consumer: AIOKafkaConsumer, place: TopicPartition, begin: int, until: int
) -> LaneRecord | None:
    found: LaneRecord | None = None
    consumer.seek(place, begin)
    while await consumer.position(place) < until:
        batches = await consumer.getmany(place, timeout_ms=_POLL_MS)
        for record in batches.get(place, ()):
            if record.key == _KEY and record.value is not None and record.offset < until:
                found = _read(record.value) or found
    return found


def _read(value: bytes) -> LaneRecord | None:
    """None for what another version wrote: the lane itself says so when it is opened."""
    try:
        record = LEDGER_RECORD.validate_json(value)
    except ValidationError:
        return None
    return record if isinstance(record, LaneRecord) else None
