"""Today's consumer beside the prototype on KIP-848, on a real Kafka: reading, joining, leaving.

python -m tests.benchmarks.next_rebalance [HEARTBEAT_MS], by default 5,000: the prototype's
"""

import asyncio
import logging
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from infra.kafka import start_broker
from tests.benchmarks.next_rebalance.heartbeats import HEARTBEAT_MS, heartbeats
from tests.benchmarks.next_rebalance.members import MEMBERS, Member, Read
from tests.integration.bus import until

PARTITIONS = 12
RECORDS = 100_000
VALUE = b"x" * 500
ROUNDS = 5
PAUSE_S = 0.02  # between records of a partition while members come and go
SETTLED_S = 3.0
LIMIT_S = 120.0


class Reader:
    """A member, and when it was given records of each partition."""

    def __init__(self, kind: str, servers: str, topic: str, group: str) -> None:
        self.count, self.times = 0, {number: [0.0] for number in range(PARTITIONS)}
        self.member: Member = MEMBERS[kind](servers, group, topic, self._take)

    async def _take(self, records: Sequence[Read]) -> None:
        self.count += len(records)
        self.times[records[0].partition].append(time.monotonic())


@dataclass(frozen=True)
class Round:
    """One join or leave: how long partitions that stayed, and those that moved, were not read."""

    moved: int
    heard: int  # partitions that were taken from somebody, and mostly given back
    stayed_ms: float
    moved_ms: float


async def cpu_us(kind: str, servers: str) -> tuple[float, float]:
    """CPU a record, in microseconds, and records a second."""
    reader = Reader(kind, servers, "many", f"cpu-{kind}-{time.monotonic()}")
    began, cpu = time.monotonic(), time.process_time()
    await reader.member.start()
    await until(lambda: reader.count >= RECORDS, "all records", LIMIT_S)
    used, took = time.process_time() - cpu, time.monotonic() - began
    await reader.member.stop()
    return used / RECORDS * 1e6, RECORDS / took


async def rounds(kind: str, servers: str) -> tuple[list[Round], list[Round]]:
    """A third member joins and leaves, again and again, while each partition has news."""
    stay = [Reader(kind, servers, "few", f"group-{kind}") for _ in range(2)]
    for reader in stay:
        await reader.member.start()
    await until(lambda: all(len(r.member.owned()) == 6 for r in stay), "halves", LIMIT_S)
    joins, leaves = [], []
    for _ in range(ROUNDS):
        await asyncio.sleep(SETTLED_S)
        third, since = Reader(kind, servers, "few", f"group-{kind}"), time.monotonic()
        await third.member.start()
        await until(lambda: len(third.member.owned()) == 4, "a third", LIMIT_S)  # noqa: B023
        await asyncio.sleep(SETTLED_S)
        moved = third.member.owned()
        joins.append(_round([*stay, third], moved, since))
        since = time.monotonic()
        await third.member.stop()
        await until(lambda: all(len(r.member.owned()) == 6 for r in stay), "halves", LIMIT_S)
        await asyncio.sleep(SETTLED_S)
        leaves.append(_round([*stay, third], moved, since))
    for reader in stay:
        await reader.member.stop()
    return joins, leaves


def _round(readers: Sequence[Reader], moved: set[int], since: float) -> Round:
    gaps = {number: _gap_ms(readers, number, since) for number in range(PARTITIONS)}
    taken = [
        number
        for reader in readers[:2]
        for change in reader.member.history
        if change.kind == "revoked" and change.at >= since
        for number in change.partitions
    ]
    stayed = max(gap for number, gap in gaps.items() if number not in moved)
    return Round(len(moved), len(set(taken)), stayed, max(gaps[number] for number in moved))


def _gap_ms(readers: Sequence[Reader], number: int, since: float) -> float:
    """The longest time in which nobody was given a record of it."""
    times = sorted(at for reader in readers for at in reader.times[number] if at >= since - 0.5)
    return max(b - a for a, b in pairwise(times)) * 1000


async def write_always(servers: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        while True:
            for number in range(PARTITIONS):
                await producer.send("few", VALUE, partition=number)
            await asyncio.sleep(PAUSE_S)


async def prepare(servers: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("many", "few")])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5) as producer:
        for number in range(RECORDS):
            await producer.send("many", VALUE, partition=number % PARTITIONS)
        await producer.flush()


def say(kind: str, name: str, found: Sequence[Round]) -> None:
    stayed, moved = ([getattr(r, part) for r in found] for part in ("stayed_ms", "moved_ms"))
    sys.stdout.write(
        f"{kind}, {name}: partitions that move {found[0].moved}, that hear of it "
        f"{statistics.median(r.heard for r in found):.0f}; unread while it lasts: those that stay "
        f"{statistics.median(stayed):.0f} ms (at most {max(stayed):.0f}), those that move "
        f"{statistics.median(moved):.0f} ms (at most {max(moved):.0f})\n"
    )


async def main(servers: str) -> None:
    await prepare(servers)
    for _ in range(2):
        for kind in MEMBERS:
            used, rate = await cpu_us(kind, servers)
            sys.stdout.write(f"{kind}: {used:.1f} µs of CPU a record, {rate:,.0f} a second\n")
            sys.stdout.flush()
    writing = asyncio.create_task(write_always(servers))
    for kind in MEMBERS:
        joins, leaves = await rounds(kind, servers)
        say(kind, "a member joins", joins)
        say(kind, "it leaves", leaves)
        sys.stdout.flush()
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it warns of each rebalance
    properties = {
        "group.initial.rebalance.delay.ms": "0",
        **heartbeats(int(sys.argv[1]) if len(sys.argv) > 1 else HEARTBEAT_MS),
    }
    with TemporaryDirectory() as folder, start_broker(Path(folder), properties=properties) as found:
        asyncio.run(main(found.bootstrap_servers))
