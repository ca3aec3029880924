"""Places and slots that are given back when a block ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.worker.core.limits.fair_queue import FairKey
from services.worker.limits.slots import Reservation, Slots


def key_of(workflow: str, tenant: str = "") -> FairKey:
    return FairKey(tenant, workflow)


@asynccontextmanager
async def placed(slots: Slots, key: str = "w", tokens: int = 0) -> AsyncIterator[Reservation]:
    place = await slots.enter(key_of(key), tokens)
    try:
        yield place
    finally:
        slots.leave(place)


@asynccontextmanager
async def calling(slots: Slots, spend_s: float = 0.0) -> AsyncIterator[None]:
    began = await slots.begin_call(spend_s)
    try:
        yield
    finally:
        slots.end_call(began)
