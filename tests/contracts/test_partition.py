"""Which partition owns a workflow: Kafka's own hash, so that Java clients and aiokafka agree."""

import pytest
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from hypothesis import given
from hypothesis import strategies as st

from answerbus.partition import murmur2, partition_of

# From Kafka's own tests of Utils.murmur2, as unsigned numbers.
KAFKA_KNOWS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("data", "expected"), KAFKA_KNOWS.items())
def test_the_hash_is_that_of_kafkas_own_tests(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF


@given(st.binary(max_size=300))
def test_the_hash_is_that_of_aiokafka(data: bytes) -> None:
    assert murmur2(data) == murmur2_of_aiokafka(data) & 0xFFFFFFFF


@pytest.mark.wide
@given(
    st.text(min_size=1, max_size=256).filter(lambda text: text.isprintable()), st.integers(1, 999)
)
def test_the_partition_is_that_of_a_client_that_has_only_a_key(
    workflow_id: str, partitions: int
) -> None:
    everywhere = list(range(partitions))

    expected = DefaultPartitioner()(workflow_id.encode(), everywhere, everywhere)

    assert partition_of(workflow_id, partitions) == expected


def test_workflows_spread_over_all_partitions() -> None:
    counts = [0] * 12
    for number in range(12_000):
        counts[partition_of(f"order-{number}", 12)] += 1

    assert min(counts) > 800
    assert max(counts) < 1_200
