"""A transaction that is tried on a broker, and aborted: its promise is kept, or it is not."""

from contextlib import suppress

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from answerbus.client.bounded import bounded
from answerbus.client.bus import Bus
from answerbus.client.errors import BusRefused, BusUnavailable
from answerbus.client.transactional_producer import TransactionalProducer
from answerbus.topics import RETRIES
from services.doctor.findings.finding import Finding
from services.doctor.findings.trial import ABOUT, TrialFacts, trial_finding

KEY = b"answerbus.doctor"  # a null value under it would end no entry, were it ever read
TRANSACTION_TIMEOUT_MS = 15_000
TRIAL_TIMEOUT_S = 30.0
_LOG_APPEND_TIME = 1
_POLL_MS = 100


async def tried(bus: Bus) -> Finding:
    """Try one; the transactional id is none of a lane, and is among those a worker may use."""
    try:
        return trial_finding(await bounded(_facts(bus), TRIAL_TIMEOUT_S))
    except BusRefused as error:
        return Finding(ABOUT, "warning", f"no transaction was tried: {error}")
    except (BusUnavailable, TimeoutError) as error:
        reason = str(error) or f"no end within {TRIAL_TIMEOUT_S:.0f} s"
        return Finding(ABOUT, "wrong", f"a transaction cannot be made: {reason}")


async def _facts(bus: Bus) -> TrialFacts:
    producer = TransactionalProducer(
        bootstrap_servers=bus.servers,
        transactional_id=f"{bus.prefix}.lane.doctor",
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        **bus.options,
    )
    place = bus.place(RETRIES, 0)
    async with bus.running(producer):
        with bus.explained():
            await producer.begin_transaction()
            try:
                sent = await producer.send_and_wait(
                    place.topic, key=KEY, value=None, partition=place.partition
                )
            finally:
                await _aborted(producer)
    was_seen = await _was_seen(bus, place, sent.offset)
    return TrialFacts(sent.timestamp_type == _LOG_APPEND_TIME, was_seen)


async def _aborted(producer: TransactionalProducer) -> None:
    """A transaction that has failed for good cannot be aborted; its own error says more."""
    with suppress(KafkaError, AssertionError):
        await producer.abort_transaction()


async def _was_seen(bus: Bus, place: TopicPartition, offset: int) -> bool:
    """Whether a reader of committed records gets the record on its way past it."""
    consumer = bus.consumer()
    async with bus.running(consumer):
        consumer.assign([place])
        consumer.seek(place, offset)
        with bus.explained():
            while await consumer.position(place) <= offset:
                for record in (await consumer.getmany(place, timeout_ms=_POLL_MS)).get(place, ()):
                    if record.offset == offset:
                        return True
    return False
