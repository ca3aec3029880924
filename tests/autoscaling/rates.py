"""A rate of the whole group while workers come and go: `make group-limits` (5 minutes).

600 requests a minute, always more work than that, and 1 to 4 to 1 workers. What the provider itself
noted: in no sliding minute more than the limit, but for one share while lanes move; and 95 % of it,
or nearly so, in each minute without a move.
"""

import asyncio
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from infra.kafka import start_broker
from tests.integration.bus import ANSWERED, Bus, Worker, create_topics, request, until

PARTITIONS = 12
PER_MINUTE = 600
MINUTE_S = 60.0
WORKERS = 4
PHASE_S = 80.0  # between moves: each has minutes without any
SETTLE_S = 15.0  # after a move, until the last worker has its lanes and works
SATURATED = 0.95  # 0.975 by construction (see rate.BURST_SHARE); on a busy machine timers are late
SHARE = PER_MINUTE // WORKERS
MANY = PARTITIONS * 1_400  # no lane runs out of work, also if it is served before all others
LIMIT_S = 180.0
Move = tuple[float, float]
"""When lanes began to move, and when all were open again."""


def window_counts(starts: Sequence[float]) -> list[tuple[float, int]]:
    """For each call the sliding minute that it begins: when that ends, and how many it has."""
    return [
        (at + MINUTE_S, bisect_left(starts, at + MINUTE_S) - number)
        for number, at in enumerate(starts)
    ]


def is_of_a_move(end: float, moves: Iterable[Move]) -> bool:
    """Whether lanes moved within the minute that ends then."""
    return any(began <= end and end - MINUTE_S <= ended + SETTLE_S for began, ended in moves)


async def run(bus: Bus, say: Callable[[str], None]) -> dict[str, int]:
    """The phases, and what the journal says of them."""
    bus.config([{"reply": ANSWERED, "latency_s": 0.05}])
    config = bus.settings(bus.scripted("default", requests_per_minute=PER_MINUTE))
    await bus.publish(request(f"r-{n}", f"w-{n}", ttl_s=3_600) for n in range(MANY))
    workers, moves = list[Worker](), list[Move]()
    for count in (1, WORKERS, 1):
        began = time.time()
        await scaled(bus, config, workers, count)
        moves.append((began, time.time()))
        await asyncio.sleep(PHASE_S)
    ended_at = time.time()
    bus.stop_workers()
    starts = sorted(datetime.fromisoformat(call["at"]).timestamp() for call in bus.calls())
    first = moves[0][1]
    tens = Counter(int(at - first) // 10 for at in starts)
    say(f"calls in each ten seconds {[tens[n] for n in range(max(tens) + 1)]}")
    say(f"lanes moved at {[tuple(round(at - first) for at in move) for move in moves]}")
    return figures(starts, moves, ended_at)


async def scaled(bus: Bus, config: Path, workers: list[Worker], count: int) -> None:
    """So many workers, each with its lanes."""
    while len(workers) < count:
        workers.append(await asyncio.to_thread(bus.start_worker, config))
    while len(workers) > count:
        workers.pop().process.terminate()
    await until(lambda: has_lanes(workers), "each has its lanes", LIMIT_S)


def has_lanes(workers: Sequence[Worker]) -> bool:
    """Whether these have all lanes, in equal parts, and all are open."""
    lanes = [list(worker.health["lanes"].values()).count("open") for worker in workers]
    return lanes == [PARTITIONS // len(workers)] * len(workers)


def figures(starts: Sequence[float], moves: Sequence[Move], ended_at: float) -> dict[str, int]:
    """Of whole minutes alone."""
    whole = [(end, count) for end, count in window_counts(starts) if end <= ended_at]
    still = [count for end, count in whole if not is_of_a_move(end, moves)]
    moving = [count for end, count in whole if is_of_a_move(end, moves)]
    return {
        "calls": len(starts),
        "most in a minute": max(still),
        "least in a minute": min(still),
        "most while lanes move": max(moving),
    }


async def main(say: Callable[[str], None]) -> None:
    """The run and its figures. AssertionError where a promise is broken."""
    with tempfile.TemporaryDirectory(prefix="rates-") as place:
        folder = Path(place)
        with start_broker(folder / "kafka") as broker:
            bus = Bus(broker.bootstrap_servers, "rates", PARTITIONS, folder)
            await create_topics(bus)
            try:
                found = await run(bus, say)
            finally:
                bus.stop_workers()
    for name, value in found.items():
        say(f"{name:22} {value}")
    assert found["most in a minute"] <= PER_MINUTE
    assert found["least in a minute"] >= SATURATED * PER_MINUTE
    assert found["most while lanes move"] <= PER_MINUTE + SHARE


if __name__ == "__main__":
    asyncio.run(main(Console(highlight=False, soft_wrap=True).print))
