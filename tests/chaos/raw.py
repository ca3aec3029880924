"""Produces garbage when it is due, to the broker that leads its partition, until it is settled."""

import asyncio
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from tests.chaos.garbage import Garbage, Placed
from tests.fuzz.produce import RawProducer, Taken

OFFER_S = 5.0
SETTLE_S = 120.0  # a broker that is away is waited for
PAUSE_S = 0.2
# No leader, not the leader, timed out, too few replicas, not enough after append, unknown topic.
NOT_NOW = {3, 5, 6, 7, 19, 20}


class RawTraffic:
    """One batch after the other, beside all else; `placed` are those that the broker took."""

    def __init__(self, bootstrap: str, topic: str, planned: list[Garbage]) -> None:
        self._servers, self._topic = bootstrap.split(","), topic
        self._left = list(reversed(planned))
        self._pool = ThreadPoolExecutor(1)
        self._under_way: list[Future[Placed | None]] = []
        self.placed: list[Placed] = []

    def produce_due(self, now_s: float) -> None:
        """Begin with what is due; returns at once, and raises what went wrong with an earlier."""
        while self._left and self._left[-1].at_s <= now_s:
            self._under_way.append(self._pool.submit(self._produce, self._left.pop()))
        while self._under_way and self._under_way[0].done():
            placed = self._under_way.pop(0).result()
            self.placed += [placed] if placed else []

    @property
    def is_done(self) -> bool:
        """Whether each batch was taken or refused."""
        return not self._left and not self._under_way

    def close(self) -> None:
        """What has not begun is left."""
        self._pool.shutdown(cancel_futures=True)

    def _produce(self, garbage: Garbage) -> Placed | None:
        limit, turn = time.monotonic() + SETTLE_S, 0
        while time.monotonic() < limit:
            taken = asyncio.run(self._offer(garbage, self._servers[turn % len(self._servers)]))
            if taken and taken.error not in NOT_NOW:
                return Placed(garbage, taken.offset) if taken.error == 0 else None
            turn += 1
            if turn % len(self._servers) == 0:
                time.sleep(PAUSE_S)
        raise TimeoutError(f"no broker took or refused a batch for {SETTLE_S:.0f} s")

    async def _offer(self, garbage: Garbage, server: str) -> Taken | None:
        """None if the end is unknown; it may have been taken, and is sent again."""
        with suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(OFFER_S), RawProducer(server) as producer:
                return await producer.offer(self._topic, garbage.partition, garbage.batch.data)
        return None
