"""A client of Kafka that cancels itself, or is deaf to cancellations, ends no watch."""

import asyncio
from collections.abc import Collection
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from faststream.kafka import KafkaBroker

from answerbus.client import bus as buses
from answerbus.client.bounded import CLEAN_UP_S, STOP_TIMEOUT_S, ClientCancelled
from answerbus.client.bus import START_TIMEOUT_S, Bus
from answerbus.client.errors import BusUnavailable
from answerbus.partition import Layout
from answerbus.topics import TOPICS
from services.commands.doctor import broker as doctor
from services.commands.repartitioning import move
from services.kafka import topics
from services.operators.adapters.picker import PICK_TIMEOUT_S, Picker
from services.operators.adapters.writer import COMMIT_TIMEOUT_S, Writer
from services.operators.records.stored import RecordPosition
from services.settings.settings import KafkaSettings, SetUpError
from services.worker import main
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka import clock_check, coordinator
from services.worker.adapters.kafka.coordinator import Coordinator
from services.worker.adapters.kafka.group_consumer import GroupConsumer
from services.worker.adapters.kafka.position_check import (
    GRACE_S,
    TIMEOUT_S,
    check_positions,
    ends_of,
)
from services.worker.adapters.kafka.read_monitor import ReadMonitor
from services.worker.adapters.kafka.subscription import LEAVE_S_MAX, NotJoined, RequestBroker
from services.worker.health.probe import PROBE_EVERY_S, Probe
from services.worker.tasks.rounds import rounds
from tests.unit.worker.adapters.kafka.test_position_check import FakeConsumer, lifecycle
from tests.unit.worker.builders import TOPIC
from tests.unit.worker.lane.misbehaving import (
    BOTH,
    Client,
    Misbehaviour,
    cancels_itself,
    ignores_cancellation,
)
from tests.unit.worker.lane.virtual import on_virtual_time, run

SETTINGS = KafkaSettings()
BUS = Bus("kafka:9092", "acme", {})
BOTH_WAYS = pytest.mark.parametrize("how", BOTH)


def now() -> float:
    return asyncio.get_running_loop().time()


class UnreliableConsumer(FakeConsumer):
    """Misbehaves in the calls that are named, until it is well again."""

    def __init__(self, how: Misbehaviour, *broken: str) -> None:
        super().__init__({0: 9, 1: 9}, 4, topics=(TOPIC,))
        self.how, self.broken = how, set(broken)

    async def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        await self._do("end_offsets")
        return await super().end_offsets(places)

    async def topics(self) -> set[str]:
        await self._do("topics")
        return await super().topics()

    async def position(self, place: TopicPartition) -> int:
        await self._do("position")
        return await super().position(place)

    async def _do(self, name: str) -> None:
        if name in self.broken:
            await self.how()


async def ended(task: "asyncio.Task[Any]") -> None:
    """Cancelled from outside, it ends at once."""
    began = now()
    task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    assert now() - began <= CLEAN_UP_S


@on_virtual_time
async def test_a_cancellation_from_within_ends_no_rounds_and_one_from_outside_does() -> None:
    done: list[float] = []

    async def do() -> None:
        done.append(now())
        await cancels_itself()

    task = asyncio.create_task(rounds("a watch", do, 1.0))
    await asyncio.sleep(5.5)
    assert len(done) == 6
    await ended(task)


@BOTH_WAYS
@pytest.mark.parametrize("broken", [("end_offsets",), ("end_offsets", "topics"), ("position",)])
@on_virtual_time
async def test_the_question_for_ends_goes_on(how: Misbehaviour, broken: tuple[str, ...]) -> None:
    consumer, reading = UnreliableConsumer(how, *broken), ReadMonitor()
    lifecycles = {0: lifecycle(4), 1: lifecycle(4)}
    probe = Probe(lambda: check_positions(consumer, TOPIC, lifecycles, reading))
    task = asyncio.create_task(probe.run())
    await asyncio.sleep(3 * TIMEOUT_S)
    assert not task.done()
    if "end_offsets" in broken:
        assert probe.trouble is not None
    else:
        assert probe.silent_s < 2 * PROBE_EVERY_S + CLEAN_UP_S
    consumer.broken.clear()
    await asyncio.sleep(3 * TIMEOUT_S)
    assert probe.ends == {0: 9, 1: 9}
    assert probe.silent_s <= PROBE_EVERY_S
    await ended(task)


@BOTH_WAYS
@on_virtual_time
async def test_ends_are_reported_within_their_time(how: Misbehaviour) -> None:
    began, limit_s = now(), 4.0
    places = [TopicPartition(TOPIC, number) for number in (0, 1)]
    found = await ends_of(UnreliableConsumer(how, "end_offsets"), places, (), limit_s)
    assert found.offsets == {}
    assert set(found.failed) == {0, 1}
    assert all(isinstance(it, TimeoutError | ClientCancelled) for it in found.failed.values())
    assert now() - began <= GRACE_S + limit_s + 2 * CLEAN_UP_S


@BOTH_WAYS
@pytest.mark.parametrize("broken", ["start", "find_coordinator", "close"])
@on_virtual_time
async def test_the_question_for_the_coordinator_goes_on(
    how: Misbehaviour, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults, clients = [broken], list[Client]()

    def client(**_: Any) -> Client:
        clients.append(Client(how, *faults))
        return clients[-1]

    monkeypatch.setattr(coordinator, "AIOKafkaAdminClient", client)

    asking = Coordinator(SETTINGS)
    await asking.ask()
    assert (asking.trouble is None) == (broken == "close")
    assert clients[0].called[-1] == "close"
    task = asyncio.create_task(asking.run(lambda: True))
    await asyncio.sleep(60)
    faults.clear()
    await asyncio.sleep(60)
    assert not task.done()
    assert asking.trouble is None
    await ended(task)


@BOTH_WAYS
@pytest.mark.parametrize("broken", ["start", "find_coordinator", "close"])
def test_a_worker_that_could_not_join_says_so_whatever_the_client_does(
    how: Misbehaviour, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "AIOKafkaAdminClient", lambda **_: Client(how, broken))

    class Application:
        async def run(self) -> None:
            raise NotJoined

    async def start() -> None:
        with pytest.raises(SetUpError, match="has not become a member"):
            await main._run(cast("Any", Application()), SETTINGS, Coordinator(SETTINGS), [])

    run(start())


@BOTH_WAYS
@pytest.mark.parametrize("broken", ["bootstrap", "send", "close"])
@on_virtual_time
async def test_the_watch_over_the_clock_goes_on(
    how: Misbehaviour, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Client] = []

    def client(**_: Any) -> Client:
        made.append(Client(how, broken))
        return made[-1]

    async def told(asked: Client) -> None:
        await asked.send()

    monkeypatch.setattr(clock_check, "AIOKafkaClient", client)
    monkeypatch.setattr(clock_check, "controller_time_ms", told)

    began = now()
    await clock_check._ask(SETTINGS, BrokerClock())
    assert now() - began <= clock_check.ASK_TIMEOUT_S + STOP_TIMEOUT_S + 2 * CLEAN_UP_S
    task = asyncio.create_task(clock_check.watch_clock(SETTINGS, BrokerClock()))
    await asyncio.sleep(120)
    assert not task.done()
    assert len(made) > 2
    assert all("close" in one.called for one in made[:-1])
    await ended(task)


@BOTH_WAYS
@on_virtual_time
async def test_the_start_of_the_consumer_ends(
    how: Misbehaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaBroker, "start", how)
    broker = RequestBroker(SETTINGS, GroupConsumer(ReadMonitor()))
    began = now()
    with pytest.raises(NotJoined if how is ignores_cancellation else ClientCancelled):
        await broker.start()
    assert now() - began <= SETTINGS.join_limit_s + CLEAN_UP_S


@BOTH_WAYS
@on_virtual_time
async def test_the_stop_of_the_consumer_ends(
    how: Misbehaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaBroker, "stop", how)
    broker = RequestBroker(SETTINGS, GroupConsumer(ReadMonitor()))
    began = now()
    await broker.stop()
    assert now() - began <= LEAVE_S_MAX + CLEAN_UP_S


@BOTH_WAYS
@on_virtual_time
async def test_a_client_that_does_not_start_is_an_outage(how: Misbehaviour) -> None:
    client = Client(how, "start", "stop")
    began = now()
    with pytest.raises(BusUnavailable):
        async with BUS.running(client):
            pytest.fail("it has not started")
    assert client.called == ["start", "stop"]
    assert now() - began <= START_TIMEOUT_S + STOP_TIMEOUT_S + 2 * CLEAN_UP_S


@BOTH_WAYS
@pytest.mark.parametrize("broken", ["start", "describe_topics", "close"])
@on_virtual_time
async def test_topics_are_counted_or_kafka_is_called_away(
    how: Misbehaviour, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Admin(Client):
        async def describe_topics(self) -> list[dict[str, Any]]:
            if "describe_topics" in self._broken:
                await self._how()
            return []

    monkeypatch.setattr(buses, "AIOKafkaAdminClient", lambda **_: Admin(how, broken))

    async def look() -> object:
        async with topics.topics_on(BUS) as there:
            return await there.look()

    for asked in (BUS._counts, look):
        if broken == "close":
            assert await asked() == {}
            continue
        with pytest.raises(BusUnavailable):
            await asked()


@BOTH_WAYS
@on_virtual_time
async def test_the_doctor_says_that_kafka_is_away(
    how: Misbehaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Healthy(Client):
        async def describe_topics(self) -> list[dict[str, Any]]:
            return []

        def all_brokers(self) -> list[Any]:
            return []

    client, admins = Healthy(how, "bootstrap", "close"), [Healthy(how), Client(how, "close")]
    made = iter(admins)
    monkeypatch.setattr(buses, "AIOKafkaAdminClient", lambda **_: next(made))
    monkeypatch.setattr(doctor, "AIOKafkaClient", lambda **_: client)

    with pytest.raises(BusUnavailable):
        await doctor.inspect_broker(BUS, "acme.worker", lambda: pytest.fail("no time is asked"))
    assert all("close" in one.called for one in (client, *admins))


@BOTH_WAYS
@on_virtual_time
async def test_a_pick_ends_and_keeps_the_next_one_from_nothing(how: Misbehaviour) -> None:
    """One that is left behind has the consumer for itself until it has ended."""

    class Consumer(Client):
        now_inside = most_inside = 0

        def assignment(self) -> set[TopicPartition]:
            return {BUS.place(PLACE.topic, 0)}

        def pause(self, *_: Any) -> None: ...

        async def beginning_offsets(self, places: Collection[TopicPartition]) -> dict[Any, int]:
            self.now_inside += 1
            self.most_inside = max(self.most_inside, self.now_inside)
            try:
                if self.now_inside and "beginning_offsets" in self._broken:
                    await self._how()
            finally:
                self.now_inside -= 1
            return dict.fromkeys(places, 0)

        async def end_offsets(self, places: Collection[TopicPartition]) -> dict[Any, int]:
            return dict.fromkeys(places, 0)

        def seek(self, *_: Any) -> None: ...

        def resume(self, *_: Any) -> None: ...

    consumer = Consumer(how, "beginning_offsets")
    picker = Picker(BUS, consumer)  # type: ignore[arg-type]
    for _ in range(2):
        began = now()
        with pytest.raises(BusUnavailable):
            await picker.pick(PLACE)
        assert now() - began <= PICK_TIMEOUT_S + CLEAN_UP_S
    consumer._broken = ()
    await asyncio.sleep(60)
    assert await picker.pick(PLACE) is None
    assert consumer.most_inside == 1


@BOTH_WAYS
@pytest.mark.parametrize("broken", ["start", "list_consumer_group_offsets", "close"])
@on_virtual_time
async def test_a_move_says_that_kafka_is_away(
    how: Misbehaviour, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Admin(Client):
        async def list_consumer_group_offsets(self, _: str) -> dict[TopicPartition, Any]:
            if "list_consumer_group_offsets" in self._broken:
                await self._how()
            return {}

    async def nobody(*_: Any) -> int:
        return 0

    monkeypatch.setattr(buses, "AIOKafkaAdminClient", lambda **_: Admin(how, broken))
    monkeypatch.setattr(move, "members_of", nobody)

    if broken == "close":
        assert await move._group(BUS, "acme.worker") == (0, {})
        return
    with pytest.raises(BusUnavailable):
        await move._group(BUS, "acme.worker")


@BOTH_WAYS
@on_virtual_time
async def test_a_replay_says_that_kafka_is_away(how: Misbehaviour) -> None:
    producer: Any = Client(how, "begin_transaction")
    writer = Writer(BUS, producer, Layout(1))
    began = now()
    with pytest.raises(BusUnavailable):
        await writer.commit([])
    assert now() - began <= COMMIT_TIMEOUT_S + CLEAN_UP_S


@on_virtual_time
async def test_a_question_that_cancels_itself_is_an_error_of_its_probe() -> None:
    probe = Probe(cancels_itself)
    task = asyncio.create_task(probe.run())
    await asyncio.sleep(1)
    assert probe.trouble is not None
    await ended(task)


PLACE = RecordPosition(TOPICS[0], 0, 0)
