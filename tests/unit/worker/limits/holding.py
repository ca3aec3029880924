"""Places and slots that are given back when a block ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.worker.core.limits.fair_queue import FairKey
from services.worker.limits.slots import Reservation, Slots


def key_of(workflow: str, tenant: str = "") -> FairKey:
    return FairKey(tenant, workflow)


@asynccontextmanager
async def placed(slots: Slots, key: str = "w", tokens: int = 0) -> AsyncIterator[Reservation]:
    place = Reservation(key_of(key), tokens)
    await slots.enter(place)
    try:
        yield place
    finally:
        slots.leave(place)


@asynccontextmanager
async def calling(slots: Slots, spend_s: float = 0.0) -> AsyncIterator[None]:
    slot = Reservation()
    await slots.begin_call(slot, spend_s)
    try:
        yield
    finally:
        slots.leave(slot)
