"""One look at a broker, without writing anything."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
)
from aiokafka.protocol.admin import ApiVersionRequest

from answerbus.broker_time import moment
from answerbus.client.bootstrap import AIOKafkaAdminClient, AIOKafkaClient
from answerbus.client.bounded import bounded, close
from answerbus.client.bus import START_TIMEOUT_S, Bus
from answerbus.client.errors import BusRefused, BusUnavailable
from answerbus.client.transactional_producer import TransactionalProducer
from answerbus.topics import REQUESTS, RETRIES, RUN_TOPICS, TOPICS, Topic
from services.commands.doctor.findings.facts import (
    BrokerFacts,
    BrokerTime,
    Cluster,
    ConsumerGroup,
    Finding,
)
from services.commands.doctor.findings.judge import (
    OPEN_TRANSACTION_S,
    TrialFacts,
    trial_finding,
)
from services.kafka.clock import controller_time_ms
from services.kafka.marker_gaps import marker_gaps
from services.kafka.options import TRANSACTION_TIMEOUT_MS
from services.kafka.planning.plan import Found
from services.kafka.topics import topics_on
from services.kafka.worker_groups import groups_of_workers, members_of

OFFSETS_TIMEOUT_S = 60.0  # aiokafka gives up before; unless it waits for ever
_PRODUCE = 0  # Kafka's number of the call
RATE_WINDOW = timedelta(hours=1)
RATE_SECONDS_MIN = 60.0
_INTERNAL = ("__consumer_offsets", "__transaction_state")
_IN_SYNC = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
_OFFSETS_KEPT = "offsets.retention.minutes"
_LOOK_AGAIN_S = 0.2
COORDINATOR_LOOKS = 50  # ten seconds: a broker makes `__consumer_offsets` in one or two
_NO_COORDINATOR = (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)

Now = Callable[[], datetime]
KEY = b"answerbus.doctor"  # a null value under it would end no entry, were it ever read
TRIAL_TIMEOUT_S = 30.0
_LOG_APPEND_TIME = 1
_POLL_MS = 100


async def inspect_broker(
    bus: Bus, group: str, now: Now, run_topics: Sequence[Topic] = ()
) -> BrokerFacts:
    """All that we judge a broker by; agents, budgets need `run_topics`. Raises BusUnavailable."""
    async with topics_on(bus, (*TOPICS, *dict.fromkeys((*RUN_TOPICS, *run_topics)))) as topics:
        found = await topics.look()
    if any(topic in found for topic in RUN_TOPICS):  # with some of them, workers want all
        run_topics = [*dict.fromkeys((*RUN_TOPICS, *run_topics))]
    client = AIOKafkaClient(bootstrap_servers=bus.servers, **bus.options)
    async with bus.admin() as admin:
        try:
            looking = _look(client, admin, group, now)
            cluster, time, members, committed = await bounded(looking, START_TIMEOUT_S)
            others = await _other_groups(admin, bus, group)
        finally:
            await close(client.close())
    layout = await bus.layout() if found else None
    if any(topic not in found for topic in TOPICS):
        return BrokerFacts(cluster, found, time, None, (), layout=layout, run_topics=run_topics)
    offsets = {place: meta.offset for place, meta in committed.items()}
    behind, stuck, rate = await _reading(bus, found, offsets, now)
    return BrokerFacts(
        cluster,
        found,
        time,
        ConsumerGroup(group, members, behind, rate),
        stuck,
        others,
        layout,
        run_topics,
    )


async def _look(
    client: AIOKafkaClient, admin: AIOKafkaAdminClient, group: str, now: Now
) -> tuple[Cluster, BrokerTime | None, int, Mapping[Any, Any]]:
    """The cluster, its time, and of the group its members and committed offsets."""
    await client.bootstrap()
    cluster, time = await _cluster(client, admin), await _time(client, now)
    return cluster, time, *await _of_group(admin, group)


async def _cluster(client: AIOKafkaClient, admin: AIOKafkaAdminClient) -> Cluster:
    versions = []
    brokers = client.all_brokers()
    for broker in brokers:
        answer = await client.send(broker.nodeId, ApiVersionRequest())
        versions += [most for call, _, most in answer.api_versions if call == _PRODUCE]
    described = await admin.describe_topics()
    replicas = {
        topic["topic"]: min(len(partition["replicas"]) for partition in topic["partitions"])
        for topic in described
        if topic["topic"] in _INTERNAL
    }
    kept = await _offsets_kept_minutes(admin, [broker.nodeId for broker in brokers])
    settings = await _internal_settings(admin, [*replicas])
    in_sync = {topic: int(value) for topic, name, value in settings if name == _IN_SYNC}
    unclean = [topic for topic, name, value in settings if (name, value) == (_UNCLEAN, "true")]
    return Cluster(len(brokers), min(versions), replicas, kept, in_sync, unclean)


async def _internal_settings(
    admin: AIOKafkaAdminClient, topics: Sequence[str]
) -> Sequence[tuple[str, str, str]]:
    """Topics, names and values, as far as this user may see them."""
    wanted = {_IN_SYNC: None, _UNCLEAN: None}
    answers = await admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, wanted) for topic in topics]
    )
    return [
        (topic, name, value)
        for answer in answers
        for _code, _text, _type, topic, entries in answer.resources
        for name, value, *_ in entries
    ]


async def _offsets_kept_minutes(admin: AIOKafkaAdminClient, brokers: Sequence[int]) -> int | None:
    """The shortest time of all brokers; None where one does not let us see its settings."""
    wanted = {_OFFSETS_KEPT: None}
    answers = await admin.describe_configs(
        [ConfigResource(ConfigResourceType.BROKER, str(broker), wanted) for broker in brokers]
    )
    kept = [
        int(value)
        for answer in answers
        for _code, _text, _type, _broker, entries in answer.resources
        for name, value, *_ in entries
        if name == _OFFSETS_KEPT
    ]
    return min(kept) if len(kept) == len(brokers) else None


async def _time(client: AIOKafkaClient, now: Now) -> BrokerTime | None:
    before = now()
    controller_ms = await controller_time_ms(client)
    after = now()
    if controller_ms is None:
        return None
    return BrokerTime(before, moment(controller_ms), after)


async def _of_group(admin: AIOKafkaAdminClient, group: str) -> tuple[int, Mapping[Any, Any]]:
    """Its members and committed offsets; of a right that is missing, the error names the group.

    A cluster that no group has used yet has no coordinator, and makes one because it is asked.
    """
    looks_left = COORDINATOR_LOOKS
    while True:
        try:
            return await members_of(admin, group), await admin.list_consumer_group_offsets(group)
        except GroupAuthorizationFailedError as error:
            raise GroupAuthorizationFailedError(group) from error
        except _NO_COORDINATOR:
            looks_left -= 1
            if not looks_left:
                raise
            await asyncio.sleep(_LOOK_AGAIN_S)


async def _other_groups(admin: AIOKafkaAdminClient, bus: Bus, group: str) -> list[str]:
    """As far as we may see them: there may be thousands, and not all of them for us to look at."""
    try:
        group_ids = groups_of_workers(admin, REQUESTS.full_name(bus.prefix), known=(group,))
        found = await bounded(group_ids, START_TIMEOUT_S)
    except (KafkaError, OSError):
        return []
    return sorted(name for name, has_workers in found.items() if has_workers)


async def _reading(
    bus: Bus, found: Mapping[Topic, Found], committed: Mapping[TopicPartition, int], now: Now
) -> tuple[Mapping[int, int], list[str], float]:
    """The workers' backlog, transactions that hold readers, and requests a second."""
    places = [
        bus.place(topic, number) for topic, it in found.items() for number in range(it.partitions)
    ]
    async with (
        bus.running(bus.consumer()) as readers,
        bus.running(bus.consumer(isolation_level="read_uncommitted")) as writers,
    ):
        with bus.explained():
            requests = [at for at in places if at.topic == REQUESTS.full_name(bus.prefix)]
            starts = await bounded(readers.beginning_offsets(requests), OFFSETS_TIMEOUT_S)
            ends = await bounded(writers.end_offsets(places), OFFSETS_TIMEOUT_S)
            gaps = {at: (max(committed.get(at, 0), starts[at]), ends[at]) for at in requests}
            empty = await marker_gaps(bus, gaps)
            stuck = await _stuck(readers.end_offsets, ends)
            rate = await _rate(readers, {at: ends[at] for at in requests}, now())
    behind = {
        at.partition: 0 if at in empty else end - begin
        for at, (begin, end) in gaps.items()
        if end >= begin
    }
    return behind, stuck, rate


async def _rate(readers: Any, ends: Mapping[TopicPartition, int], now: datetime) -> float:
    """Records a second since RATE_WINDOW ago, or since the first one that is younger."""
    since_ms = int((now - RATE_WINDOW).timestamp() * 1000)
    asked = readers.offsets_for_times(dict.fromkeys(ends, since_ms))
    found = {at: one for at, one in (await bounded(asked, OFFSETS_TIMEOUT_S)).items() if one}
    if not found:
        return 0.0
    first_s = min(one.timestamp for one in found.values()) / 1000
    seconds = max(now.timestamp() - first_s, RATE_SECONDS_MIN)
    return float(sum(ends[at] - one.offset for at, one in found.items()) / seconds)


async def _stuck(readable: Callable[..., Any], ends: Mapping[TopicPartition, int]) -> list[str]:
    """The partitions that readers cannot read up to where writers were, even after a while."""
    held = [*ends]
    for _ in range(int(OPEN_TRANSACTION_S / _LOOK_AGAIN_S)):
        now = await bounded(readable(held), OFFSETS_TIMEOUT_S)
        held = [at for at in held if now[at] < ends[at]]
        if not held:
            break
        await asyncio.sleep(_LOOK_AGAIN_S)
    return [f"{at.topic}-{at.partition}" for at in held]


async def tried(bus: Bus) -> Finding:
    """Try one; the transactional id is not that of a lane, and is among those a worker may use."""
    try:
        return trial_finding(await bounded(_facts(bus), TRIAL_TIMEOUT_S))
    except BusRefused as error:
        return Finding("trial", "warning", f"no transaction was tried: {error}")
    except (BusUnavailable, TimeoutError) as error:
        reason = str(error) or f"no end within {TRIAL_TIMEOUT_S:.0f} s"
        return Finding("trial", "wrong", f"a transaction cannot be made: {reason}")


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
