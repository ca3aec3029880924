"""The tail: its filters are in the address, and each can be taken away."""

import re

import pytest

from services.operators.records.stored import Stored
from tests.unit.console.context import OPERATOR, Site, site
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, stored


def stored_records() -> list[Stored]:
    return [
        stored("request/minimal", NOON_MS - 40 * MINUTE_MS, 0, request_id="old", workflow_id="w-1"),
        *(
            stored("request/minimal", NOON_MS, n, request_id=f"new-{n}", workflow_id="w-2")
            for n in range(1, 80)
        ),
        stored("dead_letter/invalid_answer", NOON_MS, 0, dead_letter_id="d", labels={"t": "Acme"}),
    ]


async def rows(here: Site, address: str) -> tuple[int, str]:
    text = await (await here.get(address, await here.log_in(OPERATOR))).text()
    return len(re.findall(r'<td class="much">', text)), text


@pytest.mark.parametrize(
    ("address", "count"),
    [
        ("/tail", 60),
        ("/tail?page=1", 21),
        ("/tail?q=OLD", 1),
        ("/tail?q=acme", 1),
        ("/tail?q=escapes_sandbox", 1),
        ("/tail?q=nowhere", 0),
        ("/tail?workflow=w-1&since=15m", 0),
        ("/tail?workflow=w-1&since=1h", 1),
        ("/tail?kind=dead_letter&kind=refusal&q=&workflow=&since=any", 1),
    ],
)
async def test_what_is_shown(address: str, count: int) -> None:
    async with site(*stored_records()) as here:
        found, _ = await rows(here, address)

    assert found == count


async def test_chips_lead_to_the_tail_without_them() -> None:
    async with site(*stored_records()) as here:
        _, text = await rows(here, "/tail?kind=dead_letter&kind=request&q=x&since=1h&workflow=")

    chips = text.partition('<ul class="chips"')[2].partition("</ul>")[0]
    assert re.findall(r'href="([^"]+)"', chips) == [
        "/tail?kind=request&amp;q=x&amp;since=1h",
        "/tail?kind=dead_letter&amp;q=x&amp;since=1h",
        "/tail?kind=dead_letter&amp;kind=request&amp;since=1h",
        "/tail?kind=dead_letter&amp;kind=request&amp;q=x",
    ]


@pytest.mark.parametrize("address", ["/tail?since=soon", "/tail?until=1h", "/tail?since="])
async def test_what_it_does_not_know_is_an_error(address: str) -> None:
    async with site() as here:
        assert (await here.get(address, await here.log_in(OPERATOR))).status == 400
