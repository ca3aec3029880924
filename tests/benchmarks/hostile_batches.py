"""What reading costs: batches that unpack to too much, and ordinary ones beside aiokafka's reader.

python -m tests.benchmarks.hostile_batches
"""

import struct
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.consumer.fetcher import PartitionRecords as Theirs
from aiokafka.record.memory_records import MemoryRecords

from answerbus.client.records.partition import PartitionRecords
from answerbus.client.records.poll_time_budget import PollTimeBudget
from tests.fuzz.batches import Codec, Draft, Sent, batch_bytes

PLACE = TopicPartition("requests", 0)
BOMB_BYTES = 200 * 1024 * 1024
BOMBS = 50  # in one fetch
RECORDS = 5_000
ROUNDS = 15
HEADERS = [(b"ce_%d" % n, b"x" * 20) for n in range(12)]


def ours(data: bytes, allowance: PollTimeBudget) -> PartitionRecords:
    return PartitionRecords(PLACE, data, 0, (), READ_COMMITTED, allowance, lambda _: None)


def theirs(data: bytes) -> Theirs:
    return Theirs(PLACE, MemoryRecords(data), [], 0, None, None, True, READ_COMMITTED)


def memory_mib(name: str) -> float:
    """What the process holds now (VmRSS), or the most since it was reset (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(name)]
    return int(line.split()[1]) / 1024


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def bombs() -> None:
    """Time and memory of the first poll over a fetch that is full of them."""
    for codec in (Codec.ZSTD, Codec.GZIP, Codec.LZ4, Codec.SNAPPY):
        one = batch_bytes(Draft([Sent(bytes(BOMB_BYTES))], codec))
        data = b"".join(struct.pack(">q", n) + one[8:] for n in range(BOMBS))
        reset_peak()
        before = memory_mib("VmRSS")
        began = time.process_time()
        read = len(list(ours(data, PollTimeBudget())))
        took_s = time.process_time() - began
        rise = memory_mib("VmHWM") - before
        sys.stdout.write(
            f"{codec.name.lower():6} {len(one):>10,} B unpack to {BOMB_BYTES // 2**20} MiB: a poll "
            f"passes {read} by in {took_s * 1000:.0f} ms, memory rises by {rise:.0f} MiB\n"
        )


class Unlimited(PollTimeBudget):
    """For what is not hostile."""

    @property
    def is_spent(self) -> bool:
        return False


def best_us(read: Callable[[bytes], Iterable[object]], data: bytes) -> float:
    """CPU time for a record, best of some rounds."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        list(read(data))
        found.append(time.process_time() - began)
    return min(found) / RECORDS * 1_000_000


def ordinary() -> None:
    for codec in Codec:
        for headers, per_batch in (([], 10), (HEADERS, 10), (HEADERS, 1)):
            draft = Draft([Sent(b"x" * 1000, b"k", headers)] * per_batch, codec)
            batches = range(0, RECORDS, per_batch)
            data = b"".join(batch_bytes(draft, offset) for offset in batches)
            before = best_us(theirs, data)
            now = best_us(partial(ours, allowance=Unlimited()), data)
            sys.stdout.write(
                f"{codec.name.lower():6} {len(headers):2} headers, {per_batch:2} a batch: "
                f"aiokafka {before:.1f} µs, ours {now:.1f} µs a record\n"
            )


if __name__ == "__main__":
    ordinary()
    bombs()
