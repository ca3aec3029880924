"""A stand-in for the workers: it answers each request as a test says, with raw aiokafka."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from answerbus.budget import AccountState, Budget, Spent, Usage
from answerbus.client.published_record import PublishedRecord
from answerbus.dead_letter import DeadLetter, UnknownProfile
from answerbus.envelope import ReceivedRequest, decode_request, encode
from answerbus.event import Event
from answerbus.outcome import ModelUsed, Origin, Refusal, Result, UnvalidatedResult
from answerbus.request import (
    ContractId,
    ContractRef,
    InlineId,
    InlineRef,
    Request,
    SchemaId,
    TextId,
)
from answerbus.topics import REQUESTS, TOPIC_OF_KIND
from tests.integration.bus import Bus

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
DIGEST = "sha256:" + "0" * 64
Answer = Callable[[Request], Sequence[Event]]


def result(request: Request, answer: Any) -> Result[Any]:
    return Result[Any](event_id=f"{request.request_id}.result", answer=answer, **_said(request))


def unvalidated(request: Request, answer: Any) -> UnvalidatedResult:
    return UnvalidatedResult(
        event_id=f"{request.request_id}.result",
        unvalidated_answer=answer,
        problems=(),
        **_said(request),
    )


def refusal(request: Request, reason: str) -> Refusal:
    return Refusal(
        event_id=f"{request.request_id}.refusal", by="provider", reason=reason, **_said(request)
    )


def dead_letter(request: Request) -> DeadLetter:
    return DeadLetter(
        dead_letter_id=f"{request.request_id}.dead-letter",
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        cause=UnknownProfile(),
        request=request,
        raw=None,
        origin=Origin(topic="requests", partition=0, offset=0, timestamp=NOW),
        account=None,
        at=NOW,
    )


@asynccontextmanager
async def answering(bus: Bus, answer: Answer) -> AsyncIterator[None]:
    """Answer all requests of a bus for as long as the block lasts."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bus.bootstrap, auto_offset_reset="earliest")
    producer = AIOKafkaProducer(bootstrap_servers=bus.bootstrap)
    async with consumer, producer:
        consumer.assign([TopicPartition(bus.topic(REQUESTS), p) for p in range(bus.partitions)])
        task = asyncio.create_task(_answer(bus, consumer, producer, answer))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def write(bus: Bus, producer: AIOKafkaProducer, partition: int, event: Event) -> None:
    """Put one event where a worker would."""
    record = encode(event)
    topic = bus.topic(TOPIC_OF_KIND[event.kind])
    await producer.send_and_wait(topic, record.value, record.key, partition, headers=record.headers)


async def _answer(
    bus: Bus, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, answer: Answer
) -> None:
    async for record in consumer:
        received = decode_request(record.value, record.headers)
        assert isinstance(received, ReceivedRequest)
        await asyncio.gather(
            *(write(bus, producer, record.partition, event) for event in answer(received.request))
        )


def _said(request: Request) -> dict[str, Any]:
    return {
        "request_id": request.request_id,
        "workflow_id": request.workflow_id,
        "schema": _schema(request),
        "attempt": 1,
        "model": ModelUsed(profile="default", provider="test", model="test", dialect="test"),
        "usage": Usage(),
        "account": AccountState(id=request.workflow_id, limit=Budget(), spent=Spent(attempts=1)),
        "body_digest": PublishedRecord(encode(request).value).body_digest,
        "requested_at": NOW,
        "finished_at": NOW,
        "labels": request.labels,
    }


def _schema(request: Request) -> SchemaId:
    match request.answer_schema:
        case ContractRef(name=name, version=version):
            return ContractId(name=name, version=version, digest=DIGEST)
        case InlineRef(name=name, wrapped=wrapped):
            return InlineId(name=name, wrapped=wrapped, digest=DIGEST)
        case _:
            return TextId(digest=DIGEST)
