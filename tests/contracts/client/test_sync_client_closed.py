"""A SyncClient that is closed while another thread uses it."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Self

import pytest

from answerbus.client.errors import BusUnavailable
from answerbus.client.sync_client import SyncClient
from answerbus.client.sync_subscription import SyncSubscription
from answerbus.client.testing import FakeClient

LIMIT_S = 10.0
CLOSED = "The client was closed while this call waited"


class Waits(FakeClient):
    """Its outcomes never come; `asked` is set once it waits for one."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    async def outcome_of(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        await asyncio.Event().wait()

    async def ask(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        await asyncio.Event().wait()


class Silent:
    """A subscription without outcomes, whose end needs its tasks, as that of a consumer does."""

    def __init__(self) -> None:
        self.left_by: list[type[BaseException] | None] = []
        self.asked = threading.Event()

    async def __aenter__(self) -> Self:
        self._beats = asyncio.create_task(asyncio.Event().wait())
        return self

    async def __aexit__(self, raised: type[BaseException] | None, *_: object) -> None:
        assert not self._beats.done()
        self._beats.cancel()
        self.left_by.append(raised)

    async def __anext__(self) -> Any:
        self.asked.set()
        await asyncio.Event().wait()


def error_of(
    client: SyncClient, work: Callable[[SyncClient], object], asked: threading.Event
) -> BaseException | None:
    """The error of the work in a thread of its own, where the client is closed after `asked`."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work(client)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert asked.wait(LIMIT_S)
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
def test_a_call_raises_where_its_client_is_closed(
    work: Callable[[SyncClient], object],
) -> None:
    waits = Waits()
    error = error_of(SyncClient(over=waits).open(), work, waits.asked)
    assert isinstance(error, BusUnavailable)
    assert CLOSED in str(error)


def test_a_subscription_is_left_while_its_consumer_can_say_so() -> None:
    client, silent = SyncClient(over=FakeClient()).open(), Silent()

    def read(client: SyncClient) -> None:
        subscription: Any = silent
        with SyncSubscription[Any](subscription, client._thread) as outcomes:
            next(outcomes)

    error = error_of(client, read, silent.asked)
    assert isinstance(error, BusUnavailable)
    assert silent.left_by == [asyncio.CancelledError]
