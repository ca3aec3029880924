"""What many partitions hold at once, each amid a batch that unpacks to just under the cap.

python -m tests.benchmarks.many_partitions [partitions]
"""

import asyncio
import multiprocessing
import struct
import sys
import time
from collections.abc import Mapping

from aiokafka import TopicPartition

from answerbus.client.records.unpacking import UNPACKED_BYTES_MAX
from tests.benchmarks.hostile_batches import memory_mib, reset_peak
from tests.contracts.client.records.consuming import Cluster, consuming
from tests.fuzz.batches import Codec, Draft, Sent, batch_bytes

PARTITIONS = 48
POLL_RECORDS_MAX = 100  # as a worker takes them
SIZES = {"1 KiB": 1024, "500 KiB": 500 * 1024}  # of a record
READ_S_MAX = 60.0
COMPRESSIBLE = b'{"kind": "request", "context": "0123456789"}'


def full_batch(codec: Codec, record_bytes: int) -> tuple[bytes, int]:
    """A batch that is just under the cap, and how many records it has."""
    value = (COMPRESSIBLE * (record_bytes // len(COMPRESSIBLE) + 1))[:record_bytes]
    records = [Sent(value, b"k")] * ((UNPACKED_BYTES_MAX - 64) // (record_bytes + 16))
    return batch_bytes(Draft(records, codec)), len(records)


async def measure(batches: Mapping[TopicPartition, list[bytes]], name: str) -> None:
    cluster = Cluster(batches)
    wanted = sum(cluster.end(place) for place in batches)
    packed = sum(len(one) for those in batches.values() for one in those)
    reset_peak()
    before = memory_mib("VmRSS")
    began, cpu_began, read, polls, worst_s = time.monotonic(), time.process_time(), 0, 0, 0.0
    async with consuming(cluster) as consumer:
        while read < wanted and time.monotonic() - began < READ_S_MAX:
            poll_began = time.process_time()
            found = await consumer.getmany(timeout_ms=20, max_records=POLL_RECORDS_MAX)
            worst_s = max(worst_s, time.process_time() - poll_began)
            read += sum(map(len, found.values()))
            polls += 1
    rise = memory_mib("VmHWM") - before
    cpu_s = time.process_time() - cpu_began
    sys.stdout.write(
        f"{name}: {read:,} of {wanted:,} records in {polls:,} polls, memory rises by {rise:.0f} "
        f"MiB, {cpu_s / max(1, read) * 1e6:.1f} µs a record, worst poll {worst_s * 1000:.0f} ms, "
        f"{cluster.fetched_bytes / packed:.1f} times fetched\n"
    )
    sys.stdout.flush()


def one_case(codec: Codec, size_name: str, partitions: int) -> None:
    one, count = full_batch(codec, SIZES[size_name])
    those = [one, struct.pack(">q", count) + one[8:]]
    batches = {TopicPartition("requests", n): those for n in range(partitions)}
    name = f"{codec.name.lower():6} {partitions} partitions, records of {size_name}"
    asyncio.run(measure(batches, name))


def main() -> None:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    for codec in (Codec.ZSTD, Codec.GZIP, Codec.LZ4, Codec.SNAPPY):
        for size_name in SIZES:  # a process of its own: what was freed before is no rise
            case = multiprocessing.get_context("spawn").Process(
                target=one_case, args=(codec, size_name, partitions)
            )
            case.start()
            case.join()


if __name__ == "__main__":
    main()
