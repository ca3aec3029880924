"""Open requests on a real Kafka: follow, approve, cancel; a test plays the worker."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from answerbus.agent import AgentRef
from answerbus.client import BusUnavailable, Client, Followed, PublishedControl
from answerbus.client.follow import StepEvent
from answerbus.control import Approval, ApprovalRequested, Cancel, ControlApplied
from answerbus.dead_letter import ConflictingId, DeadLetter
from answerbus.envelope import decode, encode
from answerbus.event import Event
from answerbus.outcome import Result
from answerbus.partition import partition_of
from answerbus.request import Context, Request, TextRef
from answerbus.topics import APPROVALS, CONTROLS, REQUESTS, RUN_TOPICS, STEPS, TOPIC_OF_KIND
from services.commands.following import follow_to_end
from tests.integration.answering import NOW, result, write
from tests.integration.bus import Bus, create_topics
from tests.integration.command_line import Ended, answerbus
from tests.unit.operators.stored_examples import body_of

pytestmark = pytest.mark.kafka

RUN_ID, WORKFLOW, CALL = "r-1", "order-4711", "r-1.call.3.1"
LATER = "2096-11-21T10:00:00.000Z"
REQUEST = Request(
    request_id=RUN_ID,
    workflow_id=WORKFLOW,
    answer_schema=TextRef(),
    context=Context(instructions="Where is order 4711?"),
    agent=AgentRef(name="support"),
)


def step_event(example: str, **changes: Any) -> StepEvent:
    about = {"request_id": RUN_ID, "workflow_id": WORKFLOW, "expires_at": LATER, **changes}
    event = decode(json.dumps(body_of(example, **about)).encode())
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


async def test_a_run_is_followed_approved_and_cancelled(bus: Bus) -> None:
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
        (record,) = await bus.records(APPROVALS)
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


async def test_an_invalid_record_under_its_id_does_not_end_what_is_followed(bus: Bus) -> None:
    bus.start_worker(bus.config([{"reply": {"kind": "answered", "content": "It was shipped."}}]))
    await create_topics(bus, topics=RUN_TOPICS)
    request = REQUEST.model_copy(update={"agent": None})
    ids = {"kind": "request", "request_id": RUN_ID, "workflow_id": WORKFLOW}
    lane, invalid = partition_of(WORKFLOW, bus.partitions), json.dumps(ids).encode()
    async with (
        asyncio.timeout(60),
        Client(bus.bootstrap, topic_prefix=bus.prefix) as client,
        AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as other,
    ):
        before = await client.position(WORKFLOW)
        await other.send_and_wait(bus.topic(REQUESTS), invalid, partition=lane)
        assert isinstance(await client.outcome_of(RUN_ID, WORKFLOW), DeadLetter)
        (unknown,) = await _all(client.follow(RUN_ID, WORKFLOW, after=before))
        assert isinstance(unknown.event, DeadLetter), "the follower does not know what was asked"

        following = asyncio.create_task(
            _all(client.follow(RUN_ID, WORKFLOW, after=before, request=request))
        )
        await client.publish(request)
        (answered,) = await following

        another = request.model_copy(update={"context": Context(instructions="And mine?")})
        conflict = await follow_to_end(client, another, 30, lambda _: None)
        assert isinstance(conflict, DeadLetter)
        assert conflict.cause == ConflictingId()
        again = await follow_to_end(client, request, 30, lambda _: None)

    assert isinstance(answered.event, Result)
    assert answered.event.answer == "It was shipped."
    assert again == answered.event, "a copy has the outcome of the request"


@asynccontextmanager
async def playing_worker(bus: Bus) -> AsyncIterator[None]:
    """Each request takes one step and is answered; each control comes to what it says."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bus.bootstrap, auto_offset_reset="latest")
    producer = AIOKafkaProducer(bootstrap_servers=bus.bootstrap)
    async with consumer, producer:
        topics = [bus.topic(topic) for topic in (REQUESTS, APPROVALS, CONTROLS)]
        places = [TopicPartition(name, p) for name in topics for p in range(bus.partitions)]
        consumer.assign(places)
        await consumer.seek_to_end(*places)
        task = asyncio.create_task(_play(bus, consumer, producer))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _play(bus: Bus, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer) -> None:
    async for record in consumer:
        event = decode(record.value, record.headers)
        match event:
            case Request():
                about = {"request_id": event.request_id, "workflow_id": event.workflow_id}
                last = event.context.messages[-1:]
                heard = last[0].content if last else event.context.instructions
                message = f"heard {heard}"
                step = step_event("step/calls", **about, said=[message])
                answers: list[Event] = [step, result(event, message)]
            case Approval() | Cancel():
                effect = event.decision if isinstance(event, Approval) else "cancelled"
                published = PublishedControl(event, record.partition, record.offset, NOW)
                reported = applied(published, effect)
                answers = [reported.model_copy(update={"workflow_id": event.workflow_id})]
            case _:
                raise AssertionError(event)
        for answer in answers:
            await write(bus, producer, record.partition, answer)


async def test_people_control_runs_by_commands(bus: Bus) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    lane = partition_of(WORKFLOW, bus.partitions)

    async def run(*arguments: str, stdin: bytes = b"") -> Ended:
        return await answerbus(bus.bootstrap, bus.prefix, *arguments, stdin=stdin)

    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as worker:
        refund = {**body_of("step/calls")["calls"][1], "call_id": CALL}
        for event in (REQUEST, step_event("step/calls", calls=[refund]), approval_requested()):
            await write(bus, worker, lane, event)
    listed = await run("approvals", "list")
    assert listed.code == 0, listed.err
    assert CALL in listed.out
    assert "orders.refund" in listed.out

    async with playing_worker(bus):
        asked, talked, approved, again, cancelled = await asyncio.gather(
            run("ask", "Where is it?", "--agent", "support.v3", "--follow", "--json"),
            run("chat", "support", stdin=b"Hello\nAnd my order?\n"),
            run("approvals", "approve", CALL, "--reason", "phoned", "--by", "me", "--yes"),
            run("approvals", "deny", "r-9.call.1.0", "--reason", "no", "--yes"),
            run("cancel", RUN_ID, "--reason", "enough", "--yes", "--json"),
        )
    kinds = [json.loads(line)["event"]["kind"] for line in asked.out.splitlines()]
    assert kinds == ["step", "result"], asked.err
    assert asked.code == 0
    assert talked.out.splitlines() == ["heard Hello", "heard And my order?"], talked.err
    assert "step 2\n" in talked.err
    assert "  orders.get_order {" in talked.err
    assert approved.out == f"The call {CALL} is approved.\n", approved.err
    assert (again.code, "No call" in again.err) == (1, True)
    done = json.loads(cancelled.out)
    assert (done["workflow_id"], done["effect"]) == (WORKFLOW, "cancelled")

    nothing, tree, verified = await asyncio.gather(
        run("approvals", "list", "--json"),
        run("workflow", WORKFLOW, "--tree"),
        run("audit", "verify", "--workflow", WORKFLOW, "--json"),
    )
    assert json.loads(nothing.out) == []
    assert "r-1 support v3 · 1 step" in tree.out, tree.err
    assert "(says me): phoned" in tree.out
    assert "cancelled by " in tree.out
    forged = [(entry["kind"], entry["topic"]) for entry in json.loads(verified.out)["breaks"]]
    assert ("changed", bus.topic(STEPS)) in forged, "these steps have no hashes of their own"


async def _all(events: AsyncIterator[Followed]) -> list[Followed]:
    return [followed async for followed in events]
