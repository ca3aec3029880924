"""As a new operator would try it: what is wrong is named soon after it began, on any open page."""

import asyncio
import json
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from aiohttp import StreamReader

from services.console.guard import COOKIE
from services.console.tasks.polling import WorkerStatus
from services.operators.dead_letters.moment import as_text
from services.operators.records.stored import Stored
from tests.unit.console.context import OPERATOR, Site, site
from tests.unit.operators.stored_examples import NOON_MS, stored

pytestmark = pytest.mark.wide  # each waits for real time

NAMED_WITHIN_S = 10.0
BAD_ARGS = {
    "kind": "invalid",
    "problems": [{"path": "/actions/0/args", "code": "json_text", "expected": "JSON"}],
}


def take(here: Site, *records: Stored) -> None:
    for record in records:
        here.context.feed.state.take(record)


def provider_goes_away(here: Site) -> None:
    """As attempts tell it: no worker is asked."""
    take(here, *(attempt(n, {"kind": "unavailable", "status": None}) for n in range(4)))


def attempt(number: int, failure: dict[str, object]) -> Stored:
    model = {"profile": "claude", "provider": "anthropic", "model": "m", "dialect": "anthropic"}
    return stored("attempt/retry", NOON_MS, number, failure=failure, model=model)


def answers_break_their_schema(here: Site) -> None:
    prior = [{"attempt": 1, "failure": BAD_ARGS, "answer": None}]
    died: dict[str, Any] = {"prior": prior, "at": as_text(NOON_MS)}
    example = "dead_letter/budget_exhausted_attempts"
    take(
        here,
        *(
            stored(example, NOON_MS, n, dead_letter_id=f"d-{n}", request_id=f"r-{n}", **died)
            for n in range(20)
        ),
    )


def lane_is_stuck(here: Site) -> None:
    lanes = {"2": "open", "3": "opening"}
    body = {"ready": False, "lanes": lanes, "stuck": {"3": "it waits for its predecessor"}}
    here.context.poller.results.workers = [WorkerStatus("http://w-1:8080", ready=False, body=body)]


def broker_goes_away(here: Site) -> None:
    here.context.feed.progress.error = "Kafka at k:9092 cannot be used, it does not answer."


TROUBLES: dict[str, tuple[Callable[[Site], None], list[str]]] = {
    "provider": (provider_goes_away, ['data-level="red"', "Profile claude gives no answers"]),
    "schema": (
        answers_break_their_schema,
        ['data-level="amber"', "20 of 20 requests died", "/actions/0/args is not JSON"],
    ),
    "lane": (
        lane_is_stuck,
        ['data-level="red"', "Lane 3 is stuck", "at http://w-1:8080: it waits for its"],
    ),
    "broker": (
        broker_goes_away,
        ['data-level="red"', "Kafka cannot be read", "it does not answer"],
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
async def test_a_fault_is_named_on_an_open_page(name: str) -> None:
    plant, sentences = TROUBLES[name]
    async with site() as here:
        cookie = await here.log_in(OPERATOR)
        headers = {"Accept": "text/event-stream", "Cookie": f"{COOKIE}={cookie}"}
        async with here.client.get(f"{here.url}/", headers=headers) as stream:
            assert "All is well" in (await status_in(stream.content))
            plant(here)
            reported = ""
            async with asyncio.timeout(NAMED_WITHIN_S):
                while not all(sentence in reported for sentence in sentences):
                    reported = await status_in(stream.content)

        opened = unescape(await (await here.get("/tail", cookie)).text())
        assert all(sentence in opened for sentence in sentences), (
            "and on a page that is opened then"
        )
        assert reported.index(sentences[1]) < reported.index("</p>"), "in the first sentence"


async def status_in(lines: StreamReader) -> str:
    """The status in the next event that has one."""
    async for line in lines:
        if line.startswith(b"data: "):
            parts: dict[str, str] = json.loads(line.removeprefix(b"data: "))
            if "status" in parts:
                return unescape(parts["status"])
    raise AssertionError("the stream has ended")
