"""The demo's client: it publishes, follows the events, and reads all of them again."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from answerbus.client.bus import Bus
from answerbus.partition import partition_of
from answerbus.topics import (
    ATTEMPTS,
    OUTCOMES,
    REQUESTS,
    RETRIES,
    STEPS,
)
from infra.demo.board import Row
from infra.demo.cases import Case
from services.operators.adapters.reader import reading
from services.operators.records.decoded import DecodedRecord, decoded

FOLLOWED = (*OUTCOMES, RETRIES, ATTEMPTS, STEPS)
_POLL_S = 0.1


@dataclass(frozen=True)
class Traffic:
    """A bus with its number of partitions, and the group of the workers on it."""

    bus: Bus
    partitions: int
    group_id: str

    async def publish(self, cases: Sequence[Case]) -> list[Row]:
        """Publish each as any Kafka client would: bytes, and the workflow as key."""
        async with self.bus.running(self.bus.producer()) as producer:
            rows = []
            for case in cases:
                workflow = case.workflow_id or ""
                place = self.bus.place(REQUESTS, partition_of(workflow, self.partitions))
                sent = await producer.send_and_wait(
                    place.topic, case.value, workflow.encode(), place.partition
                )
                rows.append(Row(case, sent.partition, sent.offset))
        return rows

    async def follow(self) -> AsyncGenerator[DecodedRecord, None]:
        """Everything that workers write, from the start on and without an end."""
        async with reading(self.bus, FOLLOWED) as reader:
            async for batch in reader.follow():
                for stored in batch:
                    yield decoded(stored)

    async def until_taken(self) -> None:
        """Return once the workers have committed every record of the requests as dealt with."""
        places = [self.bus.place(REQUESTS, partition) for partition in range(self.partitions)]
        async with self.bus.running(self.bus.consumer()) as consumer:
            ends = await consumer.end_offsets(places)
        async with self.bus.admin() as admin:
            while True:
                done = await admin.list_consumer_group_offsets(self.group_id)
                committed = {place: found.offset for place, found in done.items()}
                if all(committed.get(place, 0) >= end for place, end in ends.items()):
                    return
                await asyncio.sleep(_POLL_S)

    async def everything(self) -> list[DecodedRecord]:
        """All that workers have written until now."""
        async with reading(self.bus, FOLLOWED) as reader:
            return [decoded(stored) async for batch in reader.to_end() for stored in batch]
