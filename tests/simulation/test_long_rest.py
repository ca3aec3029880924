"""What was read of a lane's past is read again where it may have been taken back unseen."""

import asyncio

import pytest

from answerbus.topics import LEDGER, RETRIES, RUNS
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka import shard
from services.worker.adapters.kafka.shard import KafkaShard, Names
from services.worker.ports.kafka import PastCut, ReadProgress, StoredRecord
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.test_cluster import a_cluster, run
from tests.simulation.worker import PREFIX, simulated_clients

NAME = RETRIES.full_name(PREFIX)
REST_S = 20.0


async def read(cluster: Cluster, progress: ReadProgress, taken: dict[bytes, bytes]) -> None:
    """As an opening does that goes on with one that failed."""

    def take(record: StoredRecord) -> None:
        if record.value is None:
            taken.pop(record.key or b"", None)
        else:
            taken[record.key or b""] = record.value

    clock = BrokerClock(steady=asyncio.get_running_loop().time)
    with simulated_clients():
        await KafkaShard(Names(PREFIX, "group", 0, {"cluster": cluster}), clock).read_private(
            take, progress
        )


@pytest.mark.parametrize("rest_s", [0.0, REST_S])
def test_a_retry_that_was_ended_meanwhile_is_not_taken_for_one_that_goes_on(rest_s: float) -> None:
    async def main() -> None:
        cluster, progress, taken = a_cluster(), ReadProgress(), dict[bytes, bytes]()
        cluster.log(LEDGER.full_name(PREFIX), 0)
        cluster.produce(None, 0, [(NAME, 0, b"r-0", b"a retry", ())])
        await read(cluster, progress, taken)
        assert taken == {b"r-0": b"a retry"}

        cluster.produce(None, 1, [(NAME, 0, b"r-0", None, ())])
        await asyncio.sleep(rest_s)
        if rest_s == 0.0:
            await read(cluster, progress, taken)
            assert taken == {}
            return
        cluster.log(NAME, 0).compact(cluster.clock.now())
        with pytest.raises(PastCut, match="was not read for"):
            await read(cluster, progress, taken)

    run(main(), Process("reader", 1))


def test_so_long_as_it_is_kept_no_null_value_that_matters_goes() -> None:
    for topic in (RETRIES, RUNS):
        assert topic.segments is not None
        assert topic.segments.nulls_ms > shard.REST_S_MAX * 1000
