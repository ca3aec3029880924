"""A consumer's polls without a consumer, and the making of new ones, counted."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
)

from services.worker.adapters.kafka.consumer_renewal import Renewal
from services.worker.adapters.kafka.read_monitor import ReadMonitor

SESSION_S, REBALANCE_S, STUCK_S = 6.0, 20.0, 10.0


async def fails(**_: Any) -> Any:
    raise GroupAuthorizationFailedError("acme.worker")


async def works(**_: Any) -> dict[str, Any]:
    return {}


@dataclass
class Consumers:
    """Counts the consumers that were made; as many as told of them cannot be started."""

    reading: ReadMonitor
    broken: int = 0
    made_at: list[float] = field(default_factory=list)

    async def renew(self) -> None:
        self.made_at.append(asyncio.get_running_loop().time())
        if self.broken:
            self.broken -= 1
            raise KafkaError("not yet")

    def renewal(self) -> Renewal:
        return Renewal(self.reading, self.renew, SESSION_S, REBALANCE_S, STUCK_S)


async def polls(reading: ReadMonitor, poll: Callable[..., Any], for_s: float) -> None:
    """What FastStream's loop does."""
    ends_at = asyncio.get_running_loop().time() + for_s
    while asyncio.get_running_loop().time() < ends_at:
        try:
            await reading.watched(poll)
        except KafkaError:
            await asyncio.sleep(5)
        else:
            await asyncio.sleep(0.1)
