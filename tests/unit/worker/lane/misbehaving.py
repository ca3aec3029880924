"""Calls of a client of Kafka that does with cancellations what it likes."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from aiokafka.errors import KafkaConnectionError

LONGER_S = 10_000.0  # than any limit
IGNORING_S = 40.0  # from when it is cancelled; the loop of these tests waits for what is left


async def cancels_itself(*_: Any) -> Any:
    """As seen of aiokafka: it awaits a future that it has cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def ignores_cancellation(*_: Any) -> Any:
    """As seen of aiokafka: it swallows the cancellation, and waits on."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(LONGER_S)
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(IGNORING_S)


Misbehaviour = Callable[..., Coroutine[Any, Any, Any]]
BOTH: tuple[Misbehaviour, ...] = (cancels_itself, ignores_cancellation)


class Client:
    """One of Kafka's, of any kind: what is not named in `broken` works and says nothing."""

    def __init__(self, how: Misbehaviour, *broken: str) -> None:
        self._how, self._broken = how, broken
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Misbehaviour:
        async def call(*arguments: Any, **_: Any) -> Any:
            if "close" in self.called and name != "close":
                raise KafkaConnectionError("closed")
            self.called.append(name)
            return await self._how(*arguments) if name in self._broken else None

        return call
