"""What FastStream costs between the consumer and a handler, with our parser and with its own.

python -m tests.benchmarks.faststream_border
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any

from aiokafka import ConsumerRecord
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, TestKafkaBroker

from services.settings.settings import KafkaSettings
from services.worker.adapters.kafka.subscription import subscribe

TOPIC = "requests"
BATCHES = 500
ROUNDS = 7


def record(offset: int) -> Any:
    headers = tuple((f"ce_{n}", b"x" * 20) for n in range(12))
    return ConsumerRecord(TOPIC, 0, offset, 0, 1, b"key", b'{"a":1}', None, 3, 7, headers)


async def nothing(_: Any) -> None:
    pass


async def microseconds(take: Callable[[Any], Awaitable[Any]], batch: Sequence[Any]) -> float:
    """CPU of one batch: the median of several rounds."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(BATCHES):
            await take(batch)
        rounds.append((time.process_time() - began) / BATCHES * 1e6)
    return median(rounds)


async def main() -> None:
    thin, own = (KafkaBroker(apply_types=False, logger=None) for _ in range(2))
    ours: Any = subscribe(thin, KafkaSettings(), TOPIC, None, nothing)
    theirs: Any = own.subscriber(TOPIC, batch=True, group_id="g", ack_policy=AckPolicy.MANUAL)
    theirs(nothing)
    async with TestKafkaBroker(thin), TestKafkaBroker(own):
        for size in (1, 100):
            batch = [record(offset) for offset in range(size)]
            for name, take in (
                ("a function", nothing),
                ("our parser", ours.consume),
                ("FastStream's parser", theirs.consume),
            ):
                cpu_us = await microseconds(take, batch)
                sys.stdout.write(f"{size:4} records, {name:20} {cpu_us:9.1f} µs CPU\n")


if __name__ == "__main__":
    asyncio.run(main())
