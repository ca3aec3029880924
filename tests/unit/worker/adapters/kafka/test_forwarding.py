"""A lane beyond the deployment's partitions: each record leaves once, at each failure."""

import json
from collections import Counter
from collections.abc import Iterable

import pytest

from answerbus.topics import DEAD_LETTERS, LEDGER, REQUESTS
from services.worker.adapters.kafka.forwarding import ForwardingShard
from services.worker.handle import handle
from services.worker.lane.lifecycle import Lifecycle
from services.worker.lane.state.machine import State
from services.worker.ports.kafka import Shard
from tests.unit.worker.builders import PARTITIONS, body, workflow_of
from tests.unit.worker.lane.fakes import Broker, FakeIntake, FakeShard, Fault
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, context, events, until

BEYOND = PARTITIONS + 3
HOME = 3
REQUESTS_COUNT = 1_500
UNDECODABLE = 20
FAULTS = [
    *([fault] for fault in Fault),
    [None, Fault.HANGS_AND_HAPPENS, None, Fault.REFUSED, Fault.ANSWER_LOST, Fault.HANGS],
    [fault for _ in range(5) for fault in Fault],
]


class Forwarder(Worker):
    def _new_lane_lifecycle(self, partition: int) -> Lifecycle:
        intake = self.intakes[partition] = FakeIntake(self.broker, partition, self)
        return Lifecycle(
            partition, self.context, intake, lambda: self._forwarding(partition), handle
        )

    def _forwarding(self, partition: int) -> Shard:
        return ForwardingShard(FakeShard(self.broker, partition), PARTITIONS)


def published(broker: Broker) -> set[str]:
    names = set()
    for number in range(REQUESTS_COUNT):
        names.add(f"r-{number}")
        asked = body(f"r-{number}", workflow_of(number % PARTITIONS))
        broker.publish(json.dumps(asked).encode(), BEYOND)
        if number % (REQUESTS_COUNT // UNDECODABLE) == 0:
            broker.publish(b"rubbish %d" % number, BEYOND)
    return names


def copies(broker: Broker) -> Counter[str]:
    found = (event for p in range(PARTITIONS) for event in events(broker, REQUESTS, partition=p))
    return Counter(event["request_id"] for event in found)


def assert_all_left_once(broker: Broker, names: Iterable[str]) -> None:
    assert copies(broker) == dict.fromkeys(names, 1)
    dead_letters = events(broker, DEAD_LETTERS, partition=HOME)
    assert (
        Counter(dead_letter["dead_letter_id"] for dead_letter in dead_letters).most_common(1)[0][1]
        == 1
    )
    assert len(dead_letters) == UNDECODABLE
    closed = Counter(event["closes"] for event in events(broker, LEDGER, partition=HOME))
    assert len(closed) == REQUESTS_COUNT + UNDECODABLE
    assert set(closed.values()) == {1}
    assert events(broker, LEDGER, DEAD_LETTERS, partition=BEYOND) == []


@pytest.mark.wide
@pytest.mark.parametrize("faults", FAULTS)
@on_virtual_time
async def test_each_record_leaves_once_whatever_becomes_of_a_commit(
    faults: list[Fault | None],
) -> None:
    broker = Broker()
    names = published(broker)
    broker.faults.extend(faults)
    worker = Forwarder(broker, context(FakeProvider()))
    worker.assign(BEYOND)

    end = broker.log(REQUESTS, BEYOND).end
    await until(lambda: broker.offsets.get(BEYOND) == end, 600.0)

    lane = worker.membership.lifecycles[BEYOND].lane
    await until(lambda: lane.state is State.OPEN)
    await worker.drain()
    assert_all_left_once(broker, names)


@pytest.mark.wide
@pytest.mark.parametrize("commits", [1, 2, 4])
@on_virtual_time
async def test_a_successor_goes_on_where_a_killed_worker_stopped(commits: int) -> None:
    broker = Broker()
    names = published(broker)
    first = Forwarder(broker, context(FakeProvider(), "first"))
    first.assign(BEYOND)
    await until(lambda: copies(broker).total() >= min(100 * commits, REQUESTS_COUNT))
    await first.crash()

    second = Forwarder(broker, context(FakeProvider(), "second"))
    second.assign(BEYOND)
    end = broker.log(REQUESTS, BEYOND).end
    await until(lambda: broker.offsets.get(BEYOND) == end, 600.0)
    await second.drain()

    assert_all_left_once(broker, names)
