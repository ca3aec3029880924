"""What operators come for, from the overview or a link, in a bounded number of steps.

A step is a click, a key, or a text that is typed into a field.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from answerbus.control import Input
from services.console.guard import COOKIE
from services.console.tasks.polling import WorkerStatus
from services.operators.records.stored import Stored
from tests.browser.filled_site import long_run
from tests.browser.looks import DESKTOP, flaws, shot
from tests.browser.test_frame import opened
from tests.unit.console.context import OPERATOR, NotedControls, Site, site
from tests.unit.operators.runs.events import WORKFLOW
from tests.unit.operators.stored_examples import NOON_MS, stored

pytestmark = pytest.mark.browser

WORD = "zanzibar"
ANSWERS = {"r-1": "The parcel is lost.", "r-2": "The parcel is late."}


@dataclass
class Operator:
    """Counts what the page asks of a person."""

    page: Page
    steps: int = 0

    async def click(self, place: Locator) -> None:
        self.steps += 1
        await place.click()

    async def type(self, place: Locator, text: str) -> None:
        self.steps += 1
        await place.fill(text)

    async def press(self, key: str) -> None:
        self.steps += 1
        await self.page.keyboard.press(key)

    async def open(self, name: str) -> None:
        """A page of the menu."""
        pages = self.page.get_by_role("navigation", name="Pages")
        await self.click(pages.get_by_role("link", name=name, exact=True))


@asynccontextmanager
async def at_work(browser: Browser, *records: Stored) -> AsyncIterator[tuple[Operator, Site]]:
    """In front of the overview."""
    async with site(*records) as here:
        cookie = await here.log_in(OPERATOR)
        async with opened(browser, here, cookie) as page:
            await page.goto("/")
            yield Operator(page), here


def answered(request_id: str, number: int, micro_usd: int = 10, **asked: object) -> list[Stored]:
    """A request, its call and its answer, in a workflow of its own."""
    ids: dict[str, Any] = {"request_id": request_id, "workflow_id": f"w-{number}"}
    usage = {"input_tokens": 10, "output_tokens": 10, "micro_usd": micro_usd}
    charged = {"attempts": 1, "tokens": 20, "micro_usd": micro_usd}
    context = {"instructions": f"Look up {asked.get('word', 'an order')}."}
    return [
        stored("request/minimal", NOON_MS - 2_000, number, **ids, context=context),
        stored("attempt/result", NOON_MS - 500, number, **ids, usage=usage, charged=charged),
        stored("result/text", NOON_MS, number, **ids, answer="It is on its way."),
    ]


async def test_a_request_is_found_by_a_word_of_its_prompt(browser: Browser) -> None:
    records = [*answered("r-1", 1), *answered("r-2", 2, word=WORD)]
    async with at_work(browser, *records) as (operator, _):
        await operator.type(operator.page.get_by_role("searchbox").first, WORD)
        await operator.press("Enter")
        await operator.click(operator.page.locator("main").get_by_role("link", name="r-2"))
        await expect(operator.page.get_by_role("heading", level=1)).to_have_text("Workflow w-2")

    assert operator.steps <= 3


async def test_the_dearest_workflow_is_two_steps_away(browser: Browser) -> None:
    records = [one for n in range(1, 9) for one in answered(f"r-{n}", n, micro_usd=n * 100)]
    async with at_work(browser, *records) as (operator, _):
        await operator.open("Money")
        await operator.click(operator.page.locator("#workflows").get_by_role("link").first)
        await expect(operator.page.get_by_role("heading", level=1)).to_have_text("Workflow w-8")

    assert operator.steps <= 2


async def test_a_profile_shows_its_address_and_statuses_in_one_step(browser: Browser) -> None:
    failed = {"kind": "unavailable", "status": 503}
    records = [*answered("r-1", 1), stored("attempt/retry", NOON_MS, 2, failure=failed)]
    async with at_work(browser, *records) as (operator, here):
        body = {"servers": {"default": "https://api.acme.example"}}
        here.context.poller.results.workers = [WorkerStatus("http://w:1", True, body)]
        await operator.open("Profiles")
        strip = operator.page.locator("#profile-default")
        await expect(strip.get_by_text("https://api.acme.example")).to_be_visible()
        await expect(strip.get_by_text("503 Service Unavailable: 1")).to_be_visible()
        await shot(operator.page, "task-profile")

    assert operator.steps <= 1


async def test_a_shut_lane_and_its_reason_are_one_step_away(browser: Browser) -> None:
    async with at_work(browser, stored("lane/lane", NOON_MS, 3, 3)) as (operator, here):
        why = "ledger, offset 7, cannot be read: record version 99 is newer"
        body = {"ready": False, "lanes": {"3": "opening"}, "stuck": {"3": why}}
        here.context.poller.results.workers = [WorkerStatus("http://w:1", False, body)]
        await operator.page.goto("/")
        await operator.click(operator.page.locator("#status").get_by_role("link").first)
        await expect(operator.page.locator("main").get_by_text(why).first).to_be_visible()

    assert operator.steps <= 1


async def test_an_approval_is_given_from_the_status_in_three_steps(browser: Browser) -> None:
    asked = stored("approval_requested/refund", NOON_MS - 3_000)
    async with at_work(browser, asked) as (operator, here):
        page = operator.page
        await operator.click(page.locator("#status").get_by_role("link", name="approval").first)
        await operator.type(page.get_by_role("textbox", name="Why").first, "seen")
        await operator.click(page.get_by_role("button", name="Approve").first)
        await expect(page.get_by_role("status").first).to_be_visible()
        controls = here.context.controls
        assert isinstance(controls, NotedControls)
        assert [one.kind for one in controls.written] == ["approval"]

    assert operator.steps <= 3


async def test_a_question_is_answered_by_keyboard_alone_on_a_page_without_flaws(
    browser: Browser,
) -> None:
    asked = stored("input_requested/address", NOON_MS - 3_000)
    async with at_work(browser, asked) as (operator, here):
        page = operator.page
        await page.goto("/runs")
        assert await flaws(page) == []
        await page.locator("#approvals summary").first.focus()
        for key in ("Tab", "Tab"):  # the link to the workflow, and the first field
            await operator.press(key)
        await page.keyboard.type("High Street")
        await operator.press("Tab")
        await page.keyboard.type("3")
        await shot(page, "task-question")
        await operator.press("Enter")
        await expect(page.get_by_role("status").first).to_be_visible()
        controls = here.context.controls
        assert isinstance(controls, NotedControls)
        (given,) = controls.written
        assert isinstance(given, Input)
        assert given.value == {"street": "High Street", "floor": 3}


async def test_what_a_run_waited_for_is_seen_as_its_page_opens(browser: Browser) -> None:
    async with at_work(browser, *long_run()) as (operator, _):
        await operator.type(operator.page.get_by_role("searchbox").first, WORKFLOW)
        await operator.press("Enter")
        waits = operator.page.locator(".tree li.wait")
        await expect(waits.last).to_be_visible()
        await expect(waits.last).to_contain_text("waited")
        await shot(operator.page, "task-waits")

    assert operator.steps <= 2


async def test_two_answers_are_compared_in_five_steps(browser: Browser) -> None:
    records = [
        stored("result/text", NOON_MS, n, request_id=name, workflow_id="order-1", answer=said)
        for n, (name, said) in enumerate(ANSWERS.items())
    ]
    async with at_work(browser, *records) as (operator, _):
        page = operator.page
        await operator.type(page.get_by_role("searchbox").first, "order-1")
        await operator.press("Enter")
        await operator.click(page.get_by_text("Two answers side by side"))
        await expect(page.locator("#answers .less")).to_contain_text(ANSWERS["r-1"])
        await expect(page.locator("#answers .more")).to_contain_text(ANSWERS["r-2"])
        await shot(page, "task-answers")

    assert operator.steps <= 5


async def test_a_dismissal_is_undone_where_it_was_made_in_two_steps(browser: Browser) -> None:
    dead_letter = stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter")
    aside = stored("dismissed/dismissed", offset=1, dead_letter_id="x.dead-letter")
    async with at_work(browser, dead_letter, aside) as (operator, here):
        page = operator.page
        await page.goto("/letters/one?id=x.dead-letter")
        await operator.type(page.get_by_label("Reason"), "needed")
        await operator.click(page.get_by_role("button", name="Undo: reopen 1"))
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Dismissal undone")
        job = here.context.jobs.get(1)

    assert job is not None
    assert (job.action, len(job.keys), job.order.reason) == ("reopen", 1, "needed")
    assert operator.steps <= 2


async def test_who_approved_and_skipped_is_one_step_away(browser: Browser) -> None:
    records = [stored("approval/approved"), stored("skipped/unreadable", offset=1)]
    async with at_work(browser, *records) as (operator, _):
        await operator.open("Actions")
        rows = operator.page.locator("#actions tbody tr")
        await expect(rows).to_have_count(2)

    assert operator.steps <= 1


async def test_a_link_from_elsewhere_leads_through_the_login_to_its_page(
    browser: Browser,
) -> None:
    async with site(*answered("r-1", 1)) as here:
        context = await browser.new_context(viewport=DESKTOP, base_url=here.url)
        operator = Operator(await context.new_page())
        await operator.page.goto("/workflow?id=w-1")
        await operator.type(operator.page.get_by_label("Token"), OPERATOR)
        await operator.click(operator.page.get_by_role("button", name="Log in"))
        await expect(operator.page.get_by_role("heading", level=1)).to_have_text("Workflow w-1")
        cookies = {cookie.get("name") for cookie in await context.cookies()}
        await context.close()

    assert COOKIE in cookies
    assert operator.steps <= 2


async def test_a_runbook_opens_without_a_login(browser: Browser) -> None:
    async with site() as here:
        context = await browser.new_context(viewport=DESKTOP, base_url=here.url)
        page = await context.new_page()
        await page.goto("/runbooks/lane-stuck")
        await expect(page.get_by_role("heading", level=1)).to_have_text("A lane is stuck")
        await page.get_by_role("link", name="below").first.click()
        await expect(
            page.get_by_role("heading", name="A record that cannot be read")
        ).to_be_visible()
        await shot(page, "task-runbook")
        await context.close()
