"""A client that was closed works in the event loop in which it is opened again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from answerbus.client import connection
from answerbus.client.bus import Bus
from answerbus.client.connection import BusConnection
from answerbus.partition import Layout


class SilentBus:
    async def layout(self, *_: Any) -> Layout:
        return Layout(1)

    def producer(self) -> None: ...

    stopped = 0

    @asynccontextmanager
    async def running(self, client: Any) -> AsyncIterator[Any]:
        try:
            yield object()
        finally:
            self.stopped += 1


class SlowReader:
    has_ended = False

    def __init__(self, _: Bus) -> None: ...

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        await asyncio.sleep(0)  # others wait for the lock meanwhile
        yield self


class ReaderThatHangs(SlowReader):
    closing = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        yield self
        ReaderThatHangs.closing = True
        await asyncio.Event().wait()


def test_a_client_may_be_opened_in_several_event_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OutcomeReader", SlowReader)
    opened = BusConnection(cast("Bus", SilentBus()))

    async def use() -> int:
        async with opened:
            readers = await asyncio.gather(*(opened._started_reader() for _ in range(3)))
            return len(set(map(id, readers)))

    assert [asyncio.run(use()) for _ in range(2)] == [1, 1]


def test_a_close_that_is_cancelled_still_stops_the_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "OutcomeReader", ReaderThatHangs)
    bus = SilentBus()
    opened = BusConnection(cast("Bus", bus))

    async def use() -> None:
        async with opened:
            await opened._started_reader()

    async def cut_off() -> None:
        using = asyncio.create_task(use())
        while not ReaderThatHangs.closing:
            await asyncio.sleep(0)
        using.cancel()
        await asyncio.wait([using])

    asyncio.run(cut_off())
    assert bus.stopped == 1
