"""Outcome of one request and spend of the next share a transaction, where lanes are many."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from services.worker.lane.outbox import Outbox
from services.worker.limits.isolation import Isolation
from services.worker.limits.lease import CallLease
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Slots
from services.worker.ports.kafka import OutRecord
from tests.unit.worker.lane.virtual import run
from tests.unit.worker.limits.holding import key_of

LANES, IN_FLIGHT, WAITING, REQUESTS = 12, 100, 200, 1_200
COMMIT_S, CALL_S = 0.008, 1.4


class Shard:
    """Counts its transactions."""

    def __init__(self) -> None:
        self.committed = 0

    async def commit(self, _: Sequence[OutRecord], __: int | None) -> None:
        self.committed += 1
        await asyncio.sleep(COMMIT_S)

    async def close(self) -> None: ...


def transactions_per_request(*, knows_lanes: bool) -> float:
    """Requests of as many workflows, of which some wait behind those in flight."""
    chance, shards = random.Random(1), [Shard() for _ in range(LANES)]

    async def main() -> None:
        limiter, slots = ProfileLimiter(IN_FLIGHT), Slots(IN_FLIGHT)
        lost: list[BaseException] = []
        outboxes: list[Any] = [Outbox(shard, lost.append) for shard in shards]  # type: ignore[arg-type]
        room = asyncio.Semaphore(IN_FLIGHT + WAITING)

        async def ask(number: int) -> None:
            lane, key = chance.randrange(LANES), key_of(f"w-{number}")
            known = lane if knows_lanes else number
            lease = CallLease(limiter, slots, Isolation(), key=key, lane=known)
            await lease.enter()
            began = asyncio.get_running_loop().time()
            await outboxes[lane].put([], None)
            await lease.begin_call(asyncio.get_running_loop().time() - began)
            lease.call_begins()
            await asyncio.sleep(chance.expovariate(1 / CALL_S))
            lease.leave()
            await outboxes[lane].put([], None)
            room.release()

        tasks = []
        for number in range(REQUESTS):
            await room.acquire()
            tasks.append(asyncio.create_task(ask(number)))
        await asyncio.gather(*tasks)
        for outbox in outboxes:
            await outbox.close()
        assert not lost

    run(main())
    return sum(shard.committed for shard in shards) / REQUESTS


@pytest.mark.wide
def test_a_place_goes_to_the_lane_that_gave_it_back() -> None:
    assert transactions_per_request(knows_lanes=True) < 1.3
    assert transactions_per_request(knows_lanes=False) > 1.6
