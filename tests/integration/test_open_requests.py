"""Open requests on a real Kafka: follow, approve, cancel; a test plays the worker."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from answerbus.agent import AgentRef
from answerbus.client import BusUnavailable, Client, Followed, PublishedControl
from answerbus.client.follow import StepEvent
from answerbus.control import ApprovalRequested, ControlApplied
from answerbus.envelope import decode, encode
from answerbus.event import Event
from answerbus.partition import partition_of
from answerbus.request import Context, Request, TextRef
from answerbus.topics import CONTROLS, RUN_TOPICS, TOPIC_OF_KIND
from tests.integration.answering import result, write
from tests.integration.bus import Bus, create_topics
from tests.unit.operators.stored_examples import body_of

pytestmark = pytest.mark.kafka

RUN_ID, WORKFLOW, CALL = "r-1", "order-4711", "r-1.call.3.1"
REQUEST = Request(
    request_id=RUN_ID,
    workflow_id=WORKFLOW,
    answer_schema=TextRef(),
    context=Context(instructions="Where is order 4711?"),
    agent=AgentRef(name="support"),
)


def step_event(example: str, **changes: Any) -> StepEvent:
    about = {"request_id": RUN_ID, "workflow_id": WORKFLOW}
    event = decode(json.dumps(body_of(example, **about, **changes)).encode())
    assert isinstance(event, StepEvent)
    return event


def approval_requested() -> ApprovalRequested:
    event = step_event("approval_requested/refund", call_id=CALL)
    assert isinstance(event, ApprovalRequested)
    return event


def applied(published: PublishedControl, effect: str) -> ControlApplied:
    return ControlApplied(
        event_id=f"c-{published.partition}-{published.offset}",
        workflow_id=WORKFLOW,
        control=published.control,
        effect=effect,  # type: ignore[arg-type] # one of the words
        requests=(RUN_ID,),
        at=published.at,
    )


async def first(events: AsyncIterator[Followed], count: int) -> list[Followed]:
    return [await anext(events) for _ in range(count)]


async def write_together(bus: Bus, events: Sequence[Event], *, before_commit: Any) -> None:
    """As a lane does: in one transaction, which commits once `before_commit` is done."""
    producer = AIOKafkaProducer(bootstrap_servers=bus.bootstrap, transactional_id=bus.prefix)
    async with producer, producer.transaction():
        for event in events:
            record = encode(event)
            await producer.send_and_wait(
                bus.topic(TOPIC_OF_KIND[event.kind]),
                record.value,
                record.key,
                partition_of(WORKFLOW, bus.partitions),
                headers=record.headers,
            )
        await before_commit()


async def test_a_run_is_followed_and_people_speak_to_it(bus: Bus) -> None:
    lane = partition_of(WORKFLOW, bus.partitions)
    async with (
        asyncio.timeout(60),
        Client(bus.bootstrap, topic_prefix=bus.prefix) as client,
        AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as worker,
    ):
        with pytest.raises(BusUnavailable, match="no topic"):
            await anext(client.follow(RUN_ID, WORKFLOW))
        with pytest.raises(BusUnavailable, match="no topic"):
            await client.cancel(RUN_ID, WORKFLOW, by="me", reason="enough")
        await create_topics(bus, topics=RUN_TOPICS)

        await client.publish(REQUEST)
        asked = approval_requested()
        for event in (
            step_event("step/calls"),
            step_event("tool_ended/ok").model_copy(update={"request_id": "another"}),
            asked,
        ):
            await write(bus, worker, lane, event)
        seen = await first(client.follow(RUN_ID, WORKFLOW), 2)
        assert [it.event.kind for it in seen] == ["step", "approval_requested"]

        published = await client.approve(asked, by="ops@acme", reason="customer phoned")
        (record,) = await bus.records(CONTROLS)
        assert (record.partition, record.offset) == (published.partition, published.offset)
        assert record.partition == lane
        assert decode(record.value, record.headers) == published.control

        assert await client.effect_of(published, timeout_s=0) is None
        effect = asyncio.create_task(client.effect_of(published, timeout_s=None))
        await write(bus, worker, lane, applied(published, "approved"))
        assert await effect == applied(published, "approved")

        async def terminal_is_read() -> None:
            await write(bus, worker, lane, result(REQUEST, "It was shipped."))
            await client.outcome_of(RUN_ID, WORKFLOW)

        rest = client.follow(RUN_ID, WORKFLOW, after=seen[0].position)
        ended = step_event("tool_ended/ok", call_id=CALL)
        following = asyncio.create_task(_all(rest))
        await write_together(bus, [ended], before_commit=terminal_is_read)
        kinds = [it.event.kind for it in await following]
        assert kinds == ["approval_requested", "control_applied", "tool_ended", "result"], (
            "what a lane wrote before the terminal comes before it, also if it is seen later"
        )

        since = await _all(client.follow(RUN_ID, WORKFLOW, since=published.at))
        assert [it.event.kind for it in since][-3:] == kinds[-3:]
        again = await _all(client.follow(RUN_ID, WORKFLOW, after=since[-1].position))
        assert again == since[-1:]


async def _all(events: AsyncIterator[Followed]) -> list[Followed]:
    return [followed async for followed in events]
