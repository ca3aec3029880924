"""Pages as streams: what has changed is sent to those who may see it, until the server stops."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientResponse

from services.console import streams
from services.console.guard import COOKIE
from services.console.streams import Streams, live_parts
from tests.unit.console.context import OPERATOR, VIEWER, Site, site
from tests.unit.operators.stored_examples import NOON_MS, stored

LIMIT_S = 30.0
PERIOD_S = 0.02
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks come one soon after the other."""
    monkeypatch.setattr("services.console.application.Streams", lambda: Streams(PERIOD_S))


@asynccontextmanager
async def stream(here: Site, path: str, cookie: str) -> AsyncIterator[ClientResponse]:
    headers = {"Cookie": f"{COOKIE}={cookie}", **STREAM}
    async with here.client.get(here.url + path, headers=headers) as response:
        try:
            yield response
        finally:
            response.close()  # a stream has no end that could be read


async def event_of(response: ClientResponse) -> dict[str, str]:
    """The next event; comments and the time before a new connection are passed over."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            line = (await response.content.readline()).decode()
            assert line, "the stream has ended"
            if line.startswith("data: "):
                found: dict[str, str] = json.loads(line.removeprefix("data: "))
                return found


async def test_all_parts_come_first_and_then_what_has_changed() -> None:
    async with site(stored("result/dep_bump")) as here:
        cookie = await here.log_in(VIEWER)
        async with stream(here, "/tail", cookie) as response:
            assert response.content_type == "text/event-stream"
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            first = await event_of(response)
            here.context.feed.state.take(stored("refusal/by_model", NOON_MS + 5, offset=9))
            second = await event_of(response)

        assert {"reading", "tail"} <= first.keys()
        assert second.keys() <= {"tail", "status"}, "other parts have not changed"
        assert "refusal" in second["tail"]
        assert "refusal" not in first["tail"].partition("<tbody>")[2]


async def test_a_stream_has_what_the_page_has() -> None:
    async with site(stored("result/dep_bump"), stored("attempt/result")) as here:
        cookie = await here.log_in(VIEWER)
        page = await (await here.get("/", cookie)).text()
        async with stream(here, "/", cookie) as response:
            assert await event_of(response) == live_parts(page)


@pytest.mark.parametrize(("path", "status"), [("/tail?kind=x", 400), ("/nothing", 404)])
async def test_what_is_no_page_is_no_stream(path: str, status: int) -> None:
    async with site() as here, stream(here, path, await here.log_in(VIEWER)) as response:
        assert response.status == status
        assert response.content_type == "text/html"


async def test_who_is_not_logged_in_gets_none_and_who_logs_out_no_more() -> None:
    async with site() as here:
        response = await here.get("/tail", "", **STREAM)
        assert response.status == 303

        cookie = await here.log_in(VIEWER)
        async with stream(here, "/tail", cookie) as response:
            await event_of(response)
            here.context.guard.sessions.remove(cookie)
            async with asyncio.timeout(LIMIT_S):
                await response.content.read()


async def test_streams_end_when_the_server_does() -> None:
    async with asyncio.timeout(LIMIT_S):  # aiohttp would wait for a minute
        async with site() as here:
            cookie = await here.log_in(VIEWER)
            response = await here.client.get(
                f"{here.url}/tail", headers={"Cookie": f"{COOKIE}={cookie}", **STREAM}
            )
            await event_of(response)
        response.close()


async def test_a_page_beyond_the_limit_takes_the_place_of_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "STREAMS_MAX", 1)
    async with site() as here:
        cookie = await here.log_in(VIEWER)
        async with stream(here, "/tail", cookie) as first:
            await event_of(first)
            async with stream(here, "/tail", cookie) as second:
                assert await event_of(second)
                assert await was_ended(first)


async def test_an_idle_stream_shows_that_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEEPALIVE_S", 0.0)
    async with site() as here, stream(here, "/lanes", await here.log_in(VIEWER)) as response:
        await event_of(response)
        async with asyncio.timeout(LIMIT_S):
            while await response.content.readline() != b":\n":
                pass


@pytest.mark.parametrize(
    ("html", "parts"),
    [
        ('<div id="a" data-live>x</div>', {"a": "x"}),
        ('<p data-live id="a"><p>x</p></p>y', {"a": "<p>x</p>"}),
        ('<div id="a">x</div>', {}),
        ('<div id="a" data-live><p>&lt;div&gt;</p></div><div id="b" data-live></div>',
         {"a": "<p>&lt;div&gt;</p>", "b": ""}),
        ('<div id="a" data-live>cut', {"a": "cut"}),
        ("", {}),
    ],
)  # fmt: skip
def test_live_parts_are_cut_out_whole(html: str, parts: dict[str, Any]) -> None:
    assert live_parts(html) == parts


async def test_many_pages_of_one_viewer_leave_room_for_the_operators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "STREAMS_MAX", 6)
    monkeypatch.setattr(streams, "STREAMS_OF_ONE_MAX", 5)
    async with site(stored("result/dep_bump")) as here, AsyncExitStack() as stack:
        viewer, operator = await here.log_in(VIEWER), await here.log_in(OPERATOR)
        pages = [await stack.enter_async_context(stream(here, "/tail", viewer)) for _ in range(8)]
        ours = [await stack.enter_async_context(stream(here, "/tail", operator)) for _ in range(3)]

        for page in ours:
            assert await event_of(page)
        for page in pages[:5]:
            assert await was_ended(page), "the oldest of the viewer's make room"
        for page in pages[5:]:
            assert await event_of(page)


async def was_ended(response: ClientResponse) -> bool:
    """Whether the page is told that it is not live any more, and the stream ends."""
    async with asyncio.timeout(LIMIT_S):
        return b"event: over\n" in await response.read()
