"""A client that was closed works in the event loop in which it is opened again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from answerbus.client import connection
from answerbus.client.bus import Bus
from answerbus.client.connection import BusConnection
from answerbus.partition import Layout
from answerbus.request import Context, Request, TextRef


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


@pytest.mark.parametrize("call", ["ask", "publish", "control"])
def test_a_call_in_another_event_loop_is_refused(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "OutcomeReader", SlowReader)
    opened = BusConnection(cast("Bus", SilentBus()))
    request = Request(
        request_id="r-1",
        workflow_id="w",
        answer_schema=TextRef(),
        context=Context(instructions="Hello."),
    )
    calls: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "ask": lambda: opened.ask(request, None),
        "publish": lambda: opened.publish(request),
        "control": lambda: opened.control(cast("Any", None)),
    }
    with asyncio.Runner() as own:
        own.run(opened.__aenter__())
        with pytest.raises(RuntimeError, match="another event loop"):
            asyncio.run(calls[call]())
        own.run(opened.__aexit__())
