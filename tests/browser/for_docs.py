"""Takes the pictures of docs/console again: `python -m tests.browser.for_docs`. Look at them."""

import asyncio
import math
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

from playwright.async_api import Browser, async_playwright

from answerbus.topics import REQUESTS
from infra.browser import chromium
from services.console.guard import COOKIE
from services.console.tasks.polling import WorkerStatus
from services.operators.dead_letters.moment import as_text
from services.operators.records.stored import Stored
from tests.browser.filled_site import long_run
from tests.browser.looks import DESKTOP
from tests.browser.made_up import INVALID, dead_letter
from tests.integration.bus import ROOT
from tests.unit.console.context import OPERATOR, Site, site
from tests.unit.operators.runs.events import WORKFLOW
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, body_of, stored

FOLDER = ROOT / "docs" / "console"
PICTURES = {
    "overview": "/",
    "profiles": "/profiles",
    "letters": "/letters",
    "letter": "/letters/one?id=order-1.step-4.dead-letter",
    "workflow": "/workflow?id=order-450",
}
MINUTES = 60
RUN = f"/workflow?id={WORKFLOW}"
OUTAGE = range(26, 34)  # minutes, of claude's provider
LANES = 12
MODELS = {
    "default": ("gpt-5-mini", 1_500, 1_100),
    "claude": ("claude-sonnet-5", 4_300, 6_000),
    "local": ("qwen-3-8b", 600, 0),
}
CONTRACTS = ("plan_proposal", "agent_action", "selection", "invoice_lines")
AWAY = {"kind": "unavailable", "status": None}


def busy_hour() -> list[Stored]:
    """Some thousand requests of four contracts at three profiles, one of which was away."""
    chance, found, asked = Random(7), [dead_letter(number) for number in range(24)], count()
    for minute in range(MINUTES):
        volume = round(24 + 10 * math.sin(minute / 9) + chance.random() * 6)
        for number in range(volume):
            at_ms = NOON_MS - (MINUTES - minute) * MINUTE_MS + number * MINUTE_MS // volume
            found += _request(chance, next(asked), minute, at_ms)
    return sorted((one for one in found if one.at_ms <= NOON_MS), key=lambda one: one.at_ms)


def _request(chance: Random, number: int, minute: int, at_ms: int) -> Iterator[Stored]:
    """Its request, its calls, and its outcome."""
    name, offset = f"step-{number}", number // LANES
    contract = chance.choices(CONTRACTS, (10, 6, 3, 1))[0]
    profile = chance.choices(list(MODELS), (5, 3, 2))[0]
    model, usual_ms, micro_usd = MODELS[profile]
    ids: dict[str, Any] = {"request_id": name, "workflow_id": f"order-{number // 3 + 100}"}
    schema = {"kind": "contract", "name": contract, "version": 1}
    digest = f"sha256:{CONTRACTS.index(contract):064d}"
    asked = {"profile": profile, "provider": "openai", "model": model, "dialect": "openai"}
    usage = {"input_tokens": 700, "output_tokens": 120, "micro_usd": micro_usd}
    nothing = {"input_tokens": 0, "output_tokens": 0, "micro_usd": 0}
    asked_ms, asking = at_ms, {**ids, "answer_schema": schema, "profile": profile}
    yield stored("request/minimal", at_ms, offset, number % LANES, **asking)
    is_away = profile == "claude" and minute in OUTAGE
    calls = 3 if is_away else chance.choices((1, 2, 3), (76, 18, 6))[0]
    fails = is_away or (calls == 3 and chance.random() < 0.4)
    refused = chance.random() < 0.03
    ending = "dead_letter" if fails else "refusal" if refused else "result"
    for attempt in range(1, calls + 1):
        took_ms = round(usual_ms * chance.lognormvariate(0, 0.45))
        at_ms += took_ms + 300
        is_last = attempt == calls
        good = is_last and not fails
        failure = None if good else AWAY if is_away else INVALID
        yield stored(
            f"attempt/{ending if is_last else 'retry'}",
            at_ms,
            number * 3 + attempt,
            number % LANES,
            **ids,
            attempt=attempt,
            model=asked,
            schema_digest=digest,
            failure=failure,
            usage=nothing if is_away else usage,
            duration_ms=took_ms,
            started_at=as_text(at_ms - took_ms),
        )
    spent = {"attempts": calls, "tokens": 820 * calls, "micro_usd": micro_usd * calls}
    account = {"id": ids["workflow_id"], "limit": {"attempts": 3}, "spent": spent}
    common = {**ids, "account": account, "labels": {"tenant": chance.choice(("acme", "zeta"))}}
    if fails:
        request = body_of("dead_letter/budget_exhausted_attempts")["request"]
        request |= {**ids, "answer_schema": schema, "profile": profile}
        prior = [{"attempt": n + 1, "failure": failure, "answer": None} for n in range(calls)]
        died = {"dead_letter_id": f"{name}.dead-letter", "request": request, "prior": prior}
        example = "dead_letter/budget_exhausted_attempts"
        yield stored(example, at_ms + 50, number, 1, **common, **died, at=as_text(at_ms + 50))
        return
    example = "refusal/by_model" if refused else "result/dep_bump"
    yield stored(
        example,
        at_ms + 50,
        number,
        **common,
        schema={**schema, "digest": digest},
        attempt=calls,
        model=asked,
        usage=usage,
        requested_at=as_text(asked_ms),
        finished_at=as_text(at_ms + 50),
    )


def plant(here: Site) -> None:
    """What workers and broker say."""
    state, polled = here.context.feed.state, here.context.poller.results
    polled.lag = {lane: {3: 9, 7: 2}.get(lane, 0) for lane in range(LANES)}
    asked = state.topic_counts.total[REQUESTS.name].records // LANES
    polled.committed = {lane: asked - lag for lane, lag in polled.lag.items()}
    unhealthy = {
        "problem": "no_connection",
        "since": as_text(NOON_MS - 95_000),
        "requests": 23,
        "oldest": as_text(NOON_MS - 95_000),
    }
    fields = {"ready": True, "profiles": {"claude": unhealthy}}
    polled.workers = [
        WorkerStatus("http://10.0.0.7:8080", ready=True, body=fields),
        WorkerStatus("http://10.0.0.8:8080", ready=True, body={"ready": True}),
    ]
    assert state.records > 1_000


async def take() -> None:
    """One file for each page."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"]
        )
        async with site(*busy_hour()) as here:
            plant(here)
            for name, path in PICTURES.items():
                await _take(browser, here, path, name, full_page=True)
        async with site(*long_run()) as here:
            await _take(browser, here, RUN, "run", full_page=False)
        await browser.close()


async def _take(browser: Browser, here: Site, path: str, name: str, *, full_page: bool) -> None:
    context = await browser.new_context(viewport=DESKTOP, base_url=here.url, color_scheme="light")
    cookie = await here.log_in(OPERATOR)
    await context.add_cookies([{"name": COOKIE, "value": cookie, "url": here.url}])
    page = await context.new_page()
    await page.goto(path)
    await page.screenshot(path=FOLDER / f"{name}.png", full_page=full_page)
    await context.close()


if __name__ == "__main__":
    asyncio.run(take())
