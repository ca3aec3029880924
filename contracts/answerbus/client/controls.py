"""Publishes controls for open requests, each on its topic, and waits for their effects."""

from dataclasses import dataclass
from datetime import UTC, datetime

from aiokafka import AIOKafkaProducer

from answerbus.client.bus import FETCH_WAIT_MS, Bus
from answerbus.client.records.unreadable import Unreadable
from answerbus.client.turns import in_turns
from answerbus.control import Approval, Cancel, ControlApplied, Input
from answerbus.envelope import CLIENT_SOURCE, decode, encode
from answerbus.partition import Layout
from answerbus.topics import STEPS, TOPIC_OF_KIND

CLOCKS_DIFFER_MS = 1_000  # of brokers, at most: the control and its effect may be with two leaders
_POLL_MS = 500


@dataclass(frozen=True, slots=True)
class PublishedControl:
    """An approval, an answer or a cancellation, and where it is in its topic; `at` is Kafka's."""

    control: Approval | Input | Cancel
    partition: int
    offset: int
    at: datetime


async def publish_control(
    bus: Bus, producer: AIOKafkaProducer, layout: Layout, control: Approval | Input | Cancel
) -> PublishedControl:
    """Write it where the lane of its workflow reads it; raises BusUnavailable."""
    topic = TOPIC_OF_KIND[control.kind]
    await bus.counts(topic)  # to write to a topic that is missing may create it
    record = encode(control, source=CLIENT_SOURCE)
    place = bus.place(topic, layout.owner(control.workflow_id))
    with bus.explained():
        sent = await producer.send_and_wait(
            place.topic, record.value, record.key, place.partition, headers=record.headers
        )
    at = datetime.fromtimestamp(sent.timestamp / 1000, UTC)
    return PublishedControl(control, sent.partition, sent.offset, at)


async def find_effect(bus: Bus, layout: Layout, published: PublishedControl) -> ControlApplied:
    """The effect of the control by its lane; waits for it. Raises BusUnavailable."""
    await bus.counts(STEPS)
    consumer = bus.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS)
    place = bus.place(STEPS, layout.owner(published.control.workflow_id))
    at_ms = int(published.at.timestamp() * 1000) - CLOCKS_DIFFER_MS
    async with bus.running(consumer):
        consumer.assign([place])
        with bus.explained():
            end = (await consumer.end_offsets([place]))[place]
            found = (await consumer.offsets_for_times({place: at_ms})).get(place)
            consumer.seek(place, found.offset if found else end)
            while True:
                for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                    async for record in in_turns(records):
                        if isinstance(record, Unreadable):
                            continue
                        event = decode(record.value, record.headers)
                        if isinstance(event, ControlApplied) and event.control == published.control:
                            return event
