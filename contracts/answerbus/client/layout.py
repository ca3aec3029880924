"""Reads from the ledger what the lanes of a deployment recorded about themselves."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from pydantic import ValidationError

from answerbus.client.bounded import bounded
from answerbus.client.turns import in_turns
from answerbus.fail_fast import JsonReader
from answerbus.private.lane_records import LaneRecords
from answerbus.private.ledger import (
    LANE_KEY,
    LEDGER_RECORD,
    SKIPPED_KEY,
    LaneRecord,
    LedgerRecord,
    Skipped,
)

LOOK_TIMEOUT_S = 30.0
TAIL_RECORDS = 200  # a lane writes its record every few minutes, so that it is near the end
_TAIL_FACTOR = 8
_POLL_MS = 500
_LEDGER = JsonReader(LEDGER_RECORD)
_KEY, _SKIPPED_KEY = LANE_KEY.encode(), SKIPPED_KEY.encode()


async def written_lanes(
    consumer: AIOKafkaConsumer, ledger: str, partitions: int
) -> Mapping[int, LaneRecord]:
    """The last record of each lane that was ever opened, but for those that were skipped.

    The consumer reads committed records and is assigned to what it needs. Raises what it raises,
    and TimeoutError where Kafka gives nothing: brokers that throttle give what there is, slowly.
    """
    read: list[int] = []  # the sizes of what has come

    async def while_read(tasks: "Collection[asyncio.Task[Any]]", limit_s: float) -> None:
        before = -1
        while len(read) > before and not all(task.done() for task in tasks):
            before = len(read)
            await asyncio.wait(tasks, timeout=limit_s)

    looking = _written_lanes(consumer, ledger, partitions, read.append)
    return await bounded(looking, LOOK_TIMEOUT_S, while_read)


async def _written_lanes(
    consumer: AIOKafkaConsumer, ledger: str, partitions: int, note: Callable[[int], None]
) -> Mapping[int, LaneRecord]:
    places = [TopicPartition(ledger, number) for number in range(partitions)]
    starts = await consumer.beginning_offsets(places)
    ends = await consumer.end_offsets(places)
    found: dict[int, LaneRecord] = {}
    looked, reach = [place for place in places if starts[place] < ends[place]], TAIL_RECORDS
    while looked:
        begins = {place: max(starts[place], ends[place] - reach) for place in looked}
        found |= await _last_records(consumer, begins, ends, note)
        looked = [
            place
            for place in looked
            if place.partition not in found and begins[place] > starts[place]
        ]
        reach *= _TAIL_FACTOR
    return dict(sorted(found.items()))


async def _last_records(
    consumer: AIOKafkaConsumer,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    note: Callable[[int], None],
) -> Mapping[int, LaneRecord]:
    """Of each partition, between two places."""
    lanes = {place: LaneRecords() for place in begins}
    consumer.assign(list(begins))
    for place, begin in begins.items():
        consumer.seek(place, begin)
    waiting = set(begins)
    while waiting := {p for p in waiting if await consumer.position(p) < ends[p]}:
        for place, records in (await consumer.getmany(*waiting, timeout_ms=_POLL_MS)).items():
            note(len(records))
            async for record in in_turns(records):
                if record.offset < ends[place]:
                    _take(lanes[place], record)
    return {place.partition: it.last for place, it in lanes.items() if it.last is not None}


def _take(lane: LaneRecords, record: ConsumerRecord) -> None:
    if record.key == _KEY and record.value is None:
        lane.end()
    elif record.value and (record.key == _KEY or (record.key or b"").startswith(_SKIPPED_KEY)):
        match _read(record.value):
            case LaneRecord() as statement:
                lane.take(record.offset, record.value, statement)
            case Skipped() as skipped:
                lane.skip(skipped)
            case _:
                pass


def _read(value: bytes) -> LedgerRecord | None:
    """None for what another version wrote: the lane itself says so when it is opened."""
    try:
        return _LEDGER.validate_json(value)
    except ValidationError:
        return None
