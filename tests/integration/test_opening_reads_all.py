"""A lane that opens reads all that was committed, beside transactions that others hold open."""

import asyncio

import pytest

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error
from answerbus.client.transactional_producer import TransactionalProducer
from answerbus.topics import LEDGER
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka.shard import KafkaShard, Names, PartitionMissing
from services.worker.ports.kafka import OutRecord, ReadProgress, StoredRecord
from tests.integration.bus import Bus

pytestmark = pytest.mark.kafka

LIMIT_S = 20.0
HELD_OPEN_S = 2.0
START_S = 2.0


def shard_of(bus: Bus, partition: int = 0) -> KafkaShard:
    options = {"bootstrap_servers": bus.bootstrap}
    return KafkaShard(Names(bus.prefix, "workers", partition, options), BrokerClock())


async def test_what_stands_behind_a_foreign_open_transaction_is_read_before_a_lane_opens(
    bus: Bus,
) -> None:
    """A lane beyond the deployment's partitions writes into this one's ledger, and may hang there.

    Until that transaction ends, readers of what is committed see nothing of what follows it: the
    lane's own outcomes would be asked for, and published, again.
    """
    ledger = LEDGER.full_name(bus.prefix)
    foreign = TransactionalProducer(
        bootstrap_servers=bus.bootstrap, transactional_id=f"{bus.prefix}.lane.7"
    )
    await bounded(foreign.start(), LIMIT_S)
    await foreign.begin_transaction()
    await foreign.send_and_wait(ledger, b"foreign", key=b"closed:@r-7-0", partition=0)

    before = shard_of(bus)
    await before.fence()
    await before.commit([OutRecord(LEDGER, 0, b"closed:r-1", b"ours", [])], None)
    await before.close()

    after, found, progress = shard_of(bus), list[StoredRecord](), ReadProgress()
    await after.read_private(found.append, progress)
    assert found == [], "nobody can see it yet"
    await after.fence()
    reading = asyncio.create_task(after.read_private(found.append, progress))
    await asyncio.sleep(HELD_OPEN_S)
    await foreign.abort_transaction()
    async with asyncio.timeout(LIMIT_S):
        await reading

    assert [record.value for record in found] == [b"ours"]
    await after.close()
    await foreign.stop()


async def test_a_partition_that_is_missing_is_named(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger was created again with fewer partitions while a worker ran."""
    monkeypatch.setattr("services.worker.adapters.kafka.shard.START_TIMEOUT_S", START_S)
    shard = shard_of(bus, bus.partitions)
    with pytest.raises(PartitionMissing) as raised:
        await shard.read_private(lambda _: None, ReadProgress())
    await shard.close()

    name = LEDGER.full_name(bus.prefix)
    assert f"the topic {name} has no partition {bus.partitions}: " in describe_error(raised.value)
