"""The one writer of replays on a real Kafka: its next owner cuts off the one before."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer

from answerbus.client.bus import Bus as ClientBus
from answerbus.dead_letter import DeadLetter, Dismissed
from answerbus.registry import Registry
from answerbus.topics import DEAD_LETTERS, REQUESTS
from answerbus.trace import Trace, read_trace
from services.commands.replay import running
from services.operators.adapters import bodies as module
from services.operators.adapters.bodies import bodies
from services.operators.adapters.reader import reading
from services.operators.adapters.replaying import prepared_replays, replaying
from services.operators.adapters.writer import DeadLetterChange, Superseded, Writer, writing
from services.operators.dead_letters.forecast import KnownNames
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.prepare_replay import (
    PreparedReplay,
    Rejection,
    ReplayOrder,
    prepare_replay,
)
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.dead_letters.selection import Selection
from services.operators.records.summary import summarize
from tests.integration.bus import Bus
from tests.integration.dead_letters import WITH_REQUEST, dead_letters, publish
from tests.unit.worker.builders import NOW

pytestmark = pytest.mark.kafka

OPEN_S = 3.0


@pytest.fixture
def outside(bus: Bus) -> ClientBus:
    return ClientBus(bus.bootstrap, bus.prefix, {})


async def found(outside: ClientBus) -> list[DeadLetterRow]:
    folded = DeadLetterIndex()
    async with reading(outside, (DEAD_LETTERS,)) as reader:
        async for batch in reader.to_end():
            for stored in batch:
                folded.take(summarize(stored))
    return sorted(folded, key=lambda dead_letter: dead_letter.id)


async def replay(outside: ClientBus, writer: Writer, dead_letter: DeadLetterRow, by: str) -> None:
    async for _, body in bodies(outside, [dead_letter]):
        assert isinstance(body, DeadLetter)
        revived = prepare_replay(body, ReplayOrder(by, "again"), NOW)
        assert isinstance(revived, PreparedReplay)
        await writer.commit([DeadLetterChange(revived, dead_letter.place.partition)])


async def test_a_replay_goes_on_in_the_trace_that_its_dead_letter_ended(
    bus: Bus, outside: ClientBus
) -> None:
    (body,) = dead_letters(1, WITH_REQUEST)
    trace = Trace("ab" * 16, "cd" * 8, state="shop=1")
    await publish(bus, [body], [(name, text.encode()) for name, text in trace.headers().items()])
    chosen, order = await found(outside), ReplayOrder("ops@acme", "again")
    known = KnownNames(None, Registry())
    async with writing(outside) as writer:
        outcomes = prepared_replays(outside, chosen, order, known, lambda: NOW)
        (step,) = [step async for step in replaying(writer, outcomes)]

    assert [dead_letter.id for dead_letter, _ in step.sent] == [body["dead_letter_id"]]
    await bus.settled()
    written = [*await bus.records(REQUESTS), (await bus.records(DEAD_LETTERS))[-1]]
    assert [read_trace(record.headers) for record in written] == [trace, trace]


async def test_of_two_writers_the_first_is_cut_off_and_has_done_nothing(
    bus: Bus, outside: ClientBus
) -> None:
    await publish(bus, dead_letters(3, WITH_REQUEST))
    one, two, three = await found(outside)
    async with writing(outside) as first:
        await replay(outside, first, one, "first@acme")
        async with writing(outside) as second:
            with pytest.raises(Superseded):
                await replay(outside, first, two, "first@acme")
            await replay(outside, second, two, "second@acme")
            dismissed = Dismissed(dead_letter_id=three.id, by="second@acme", reason="gone", at=NOW)
            await second.commit([DeadLetterChange(dismissed, three.place.partition)])

    assert [
        (
            dead_letter.replay.by if dead_letter.replay else None,
            dead_letter.dismissal.by if dead_letter.dismissal else None,
        )
        for dead_letter in await found(outside)
    ] == [("first@acme", None), ("second@acme", None), (None, "second@acme")]
    sent = {body["request_id"]: body for body in await bus.everything(REQUESTS)}
    assert {name: body["replay"]["by"] for name, body in sent.items()} == {
        f"{one.request_id}.replay.1": "first@acme",
        f"{two.request_id}.replay.1": "second@acme",
    }


async def test_what_another_did_while_one_looked_is_left_alone(
    bus: Bus, outside: ClientBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(bus, dead_letters(2, WITH_REQUEST))
    one, two = await found(outside)

    @asynccontextmanager
    async def writing_later(bus: ClientBus) -> AsyncIterator[Writer]:
        async with writing(bus) as another:
            await replay(bus, another, one, "another@acme")
        async with writing(bus) as writer:
            yield writer

    monkeypatch.setattr(running, "writing", writing_later)
    order = ReplayOrder("ops@acme", "", force=True)
    task = running.Task(outside, Selection(), order, KnownNames(None, Registry()))
    done = await running.replayed(task, ask=False)

    assert [link.dead_letter_id for link in done.sent] == [two.id]
    assert [
        dead_letter.replay.by if dead_letter.replay else None
        for dead_letter in await found(outside)
    ] == [
        "another@acme",
        "ops@acme",
    ]


async def test_what_was_done_is_not_hidden_by_a_transaction_that_is_still_open(
    bus: Bus, outside: ClientBus
) -> None:
    """A worker's, in the same partition: readers of committed records see nothing behind it."""
    await publish(bus, dead_letters(1, WITH_REQUEST))
    (dead_letter,) = await found(outside)
    worker = AIOKafkaProducer(bootstrap_servers=bus.bootstrap, transactional_id=f"{bus.prefix}-w")
    async with worker:
        async with writing(outside) as writer:
            await worker.begin_transaction()
            topic, partition = bus.topic(DEAD_LETTERS), dead_letter.place.partition
            await worker.send_and_wait(topic, b"{}", partition=partition)
            await replay(outside, writer, dead_letter, "ops@acme")
        assert [one.status for one in await found(outside)] == ["open"]

        async def opened() -> list[str]:
            async with writing(outside):
                return [one.status for one in await found(outside)]

        opening = asyncio.create_task(opened())
        await asyncio.sleep(OPEN_S)  # long enough for who does not wait to have looked
        await worker.abort_transaction()

    assert await opening == ["replayed"]


async def test_what_is_written_is_keyed_and_headed_as_the_contract_says(
    bus: Bus, outside: ClientBus
) -> None:
    await publish(bus, dead_letters(1, WITH_REQUEST))
    (dead_letter,) = await found(outside)
    async with writing(outside) as writer:
        await replay(outside, writer, dead_letter, "ops@acme")
    (request,) = await bus.records(REQUESTS)
    _, replayed = await bus.records(DEAD_LETTERS)

    assert (request.key, replayed.key) == (b"order-0", dead_letter.id.encode())
    assert replayed.partition == request.partition == dead_letter.place.partition
    for record, kind in ((request, "request"), (replayed, "replayed")):
        headers = dict(record.headers)
        assert headers["ce_type"] == f"answerbus.{kind}.v1".encode()
        assert headers["ce_source"] == b"/answerbus/replay"


@pytest.mark.parametrize("picked_max", [0, 50])
async def test_bodies_are_the_same_whether_picked_or_read_and_say_what_is_gone(
    bus: Bus, outside: ClientBus, picked_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PICKED_MAX", picked_max)
    written = dead_letters(6, WITH_REQUEST)
    await publish(bus, written)
    wanted = (await found(outside))[::2]
    lost = wanted[0]
    lost.place = type(lost.place)(DEAD_LETTERS, lost.place.partition, 10_000)
    whole = {dead_letter.id: body async for dead_letter, body in bodies(outside, wanted)}

    bodies_of = {body["dead_letter_id"]: body for body in written}
    assert whole == {
        lost.id: Rejection("gone", "Its record is no longer kept"),
        **{
            dead_letter.id: DeadLetter.model_validate_json(json.dumps(bodies_of[dead_letter.id]))
            for dead_letter in wanted[1:]
        },
    }
