"""Sends the records of a transaction in one batch for each partition.

A send of its own would cost each record a task's turn, a future and two looks at the metadata.
"""

import asyncio
from collections.abc import Callable, Iterable

from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import RecordMetadata

from answerbus.client.transactional_producer import TransactionalProducer
from answerbus.topics import Topic
from services.worker.ports.kafka import OutRecord

Acknowledged = asyncio.Future[RecordMetadata]


async def send_batches(
    producer: TransactionalProducer,
    records: Iterable[OutRecord],
    name_of: Callable[[Topic], str],
    timestamp_ms: int,
) -> list[Acknowledged]:
    """Acknowledgements, one for each batch; records of one partition keep their order.

    The records name their partitions. Raises KafkaError.
    """
    sent: list[Acknowledged] = []
    open_batches: dict[tuple[str, int | None], BatchBuilder] = {}
    for record in records:
        place = name_of(record.topic), record.partition
        batch = open_batches.get(place)
        if batch is not None and not _append(batch, record, timestamp_ms):
            sent.append(await _send(producer, place, batch))
            batch = None
        if batch is None:
            open_batches[place] = batch = producer.create_batch()
            _append(batch, record, timestamp_ms)  # an empty batch takes a record of any size
    for place, batch in open_batches.items():
        sent.append(await _send(producer, place, batch))
    return sent


def _append(batch: BatchBuilder, record: OutRecord, timestamp_ms: int) -> bool:
    found = batch.append(
        timestamp=timestamp_ms, key=record.key, value=record.value, headers=record.headers
    )
    return found is not None


async def _send(
    producer: TransactionalProducer, place: tuple[str, int | None], batch: BatchBuilder
) -> Acknowledged:
    topic, partition = place
    sent: Acknowledged = await producer.send_batch(batch, topic, partition=partition)
    return sent
