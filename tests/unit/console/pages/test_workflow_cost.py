"""A workflow's page of many large records holds up no other page, and is bounded in bytes."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from services.console.context import LongPages
from services.console.pages import workflow
from services.operators.adapters.picker import newest_within
from services.operators.records.stored import Stored
from tests.cpu_time import cpu_time
from tests.unit.console.context import OPERATOR, VIEWER, site
from tests.unit.operators.stored_examples import stored

PAGE = "/workflow?id=w"
FACTS = [{"name": f"f{n}", "value": {}} for n in range(1_000)]
STREAM = "text/event-stream"


def large(count: int) -> Iterator[Stored]:
    for n in range(count):
        context = {"instructions": "x", "facts": FACTS}
        yield stored(
            "request/minimal", offset=n, workflow_id="w", request_id=f"r-{n}", context=context
        )


async def test_a_page_is_made_beside_the_event_loop() -> None:
    async with site(*large(20)) as here:
        cookie = await here.log_in(OPERATOR)
        with cpu_time() as of_loop:
            began = time.process_time()
            text = await (await here.get(PAGE, cookie)).text()
            of_all_s = time.process_time() - began

    assert "r-19" in text
    assert of_loop.spent_s < of_all_s / 2


async def test_a_page_has_the_newest_records_within_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = list(large(5))
    monkeypatch.setattr(workflow, "BYTES_MAX", records[0].size * 3)
    async with site(*records) as here:
        text = await (await here.get(PAGE, await here.log_in(OPERATOR))).text()

    assert "2 older records are not shown." in text


async def test_a_page_that_stays_open_is_not_made_again() -> None:
    async with site(*large(1)) as here:
        cookie = await here.log_in(VIEWER)
        async with here.context.long_pages.turn_of(("nobody", "", False)):  # type: ignore[arg-type]
            response = await here.get(PAGE, cookie, Accept=STREAM)
            part = await response.content.readuntil(b"\n\n")
            response.close()

    assert response.content_type == STREAM
    assert part.startswith(b"retry: ")


async def test_an_open_search_does_not_search_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(*large(1)) as here:
        cookie = await here.log_in(OPERATOR)
        monkeypatch.setattr(here.context.prompt_searcher, "search", None)
        response = await here.get("/find?q=lost", cookie, Accept=STREAM)
        part = await response.content.readuntil(b"\n\n")
        response.close()

    assert part.startswith(b"retry: ")


async def test_who_asks_for_many_pages_keeps_others_waiting_for_one() -> None:
    pages, made = LongPages(), list[str]()
    begin = asyncio.Event()

    async def make(name: str) -> None:
        async with pages.turn_of((name, name, False)):  # type: ignore[arg-type]
            await begin.wait()
            made.append(name)

    async with asyncio.TaskGroup() as group:
        for name in [*["greedy"] * 9, "modest"]:
            group.create_task(make(name))
        await asyncio.sleep(0)
        begin.set()

    assert made[:2] == ["greedy", "modest"]


def test_the_newest_are_kept_whole() -> None:
    records = [Stored(one.topic, 0, n, n, None, b"1234", ()) for n, one in enumerate(large(3))]

    assert newest_within(11, records) == [records[2], records[1]]
    assert newest_within(3, records) == []
