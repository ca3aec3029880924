"""A SyncClient that is closed while another thread uses it."""

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import pytest

from answerbus.client.errors import BusUnavailable
from answerbus.client.sync_client import SyncClient
from answerbus.client.sync_subscription import SyncSubscription
from answerbus.client.testing import FakeClient

LIMIT_S = 10.0
CLOSED = "The client was closed while this call waited"


class Waits(FakeClient):
    """Its outcomes never come."""

    async def outcome_of(self, *_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    async def ask(self, *_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()


class Silent:
    """A subscription without outcomes, whose end needs its tasks, as that of a consumer does."""

    def __init__(self) -> None:
        self.left_by: list[type[BaseException] | None] = []

    async def __aenter__(self) -> Self:
        self._beats = asyncio.create_task(asyncio.Event().wait())
        return self

    async def __aexit__(
        self,
        raised: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert not self._beats.done()
        self._beats.cancel()
        self.left_by.append(raised)

    async def __anext__(self) -> Any:
        await asyncio.Event().wait()


def error_of(client: SyncClient, work: Callable[[SyncClient], object]) -> BaseException | None:
    """What the work raises in a thread of its own, once the client is closed."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work(client)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(0.2)
    client.close()
    thread.join(LIMIT_S)
    return raised[0] if raised else None


@pytest.mark.parametrize(
    "work",
    [
        lambda client: client.outcome_of("r", "w"),
        lambda client: client.ask("Hello."),
        lambda client: client.ask("Hello.", on_progress=print),
    ],
    ids=["outcome_of", "ask", "ask_with_progress"],
)
def test_a_call_that_waits_is_told(work: Callable[[SyncClient], object]) -> None:
    error = error_of(SyncClient(over=Waits()).open(), work)
    assert isinstance(error, BusUnavailable)
    assert CLOSED in str(error)


def test_a_subscription_is_left_while_its_consumer_can_say_so() -> None:
    client, silent = SyncClient(over=FakeClient()).open(), Silent()

    def read(client: SyncClient) -> None:
        subscription: Any = silent
        with SyncSubscription[Any](subscription, client._thread) as outcomes:
            next(outcomes)

    error = error_of(client, read)
    assert isinstance(error, BusUnavailable)
    assert silent.left_by == [asyncio.CancelledError]
