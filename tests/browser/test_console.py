"""What an operator does at three in the morning, in a real browser on a real stack."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.browser.console import OPERATOR, Console, console
from tests.browser.looks import DESKTOP, flaws, flaws_in_all_looks, shot
from tests.integration.bus import ANSWERED, Bus, request

pytestmark = [pytest.mark.kafka, pytest.mark.browser]

NARROW = ViewportSize(width=360, height=740)
DEAD_LETTERS = 5
SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
UNKNOWN_CONTRACT = {"kind": "contract", "name": "odd", "version": 1}
RULES: list[dict[str, Any]] = [
    {"when": {"contains": "Decline"}, "reply": {"kind": "refused", "reason": SCRIPT}},
    {"reply": ANSWERED},
]


async def bus_with_history(bus: Bus) -> Path:
    """A past with results, a refusal and dead letters; the worker stays."""
    config = bus.config(RULES)
    bus.start_worker(config)
    await bus.publish(
        [
            *(request(f"good-{n}", f"order-{n}") for n in range(3)),
            request("declined", "order-7", "Decline this."),
            *(
                request(f"lost-{n}", f"order-{n}", f"Do it. {SCRIPT}", profile="missing")
                for n in range(DEAD_LETTERS)
            ),
            request("odd", "order-9", answer_schema=UNKNOWN_CONTRACT),
        ]
    )
    assert len(await bus.terminals(DEAD_LETTERS + 5)) == DEAD_LETTERS + 5
    return config


async def log_in(page: Page, at: Console, token: str) -> None:
    await page.goto(at.url)
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(page.locator("#reading")).to_be_empty()


async def test_the_biggest_group_is_found_looked_into_edited_replayed_and_seen_to_succeed(
    bus: Bus, browser: Browser
) -> None:
    config = await bus_with_history(bus)
    page = await browser.new_page(viewport=DESKTOP)
    async with console(config) as at:
        await log_in(page, at, OPERATOR)
        await expect(page.locator("#now")).to_contain_text("6")
        await shot(page, "1-overview")

        await page.get_by_role("link", name="Dead letters").click()
        biggest = page.locator("#groups tbody tr").first
        await expect(biggest).to_contain_text("unknown profile")
        await shot(page, "2-groups")
        await biggest.get_by_role("link", name="lost-").click()
        await expect(page.get_by_text("The workers have no profile of that name.")).to_be_visible()
        await expect(page.locator("blockquote")).to_contain_text("<script>")
        await shot(page, "3-letter")

        await page.go_back()
        await biggest.get_by_role("link", name=f"{DEAD_LETTERS} dead letters of").click()
        await page.get_by_role("button", name=f"All {DEAD_LETTERS}").click()
        await page.get_by_role("button", name="Dry run").click()
        await expect(page.get_by_text("The settings have no profile missing")).to_be_visible()
        await shot(page, "4-dry-run")

        await page.get_by_label("Another profile").fill("default")
        await page.get_by_label("Reason").fill("the profile was misspelt")
        await page.get_by_role("button", name="Dry run").click()
        sendable = page.locator(".tiles div").filter(has_text="Would be sent")
        await expect(sendable).to_contain_text(str(DEAD_LETTERS))
        await page.get_by_role("button", name=f"Replay {DEAD_LETTERS}").click()
        answered = page.locator("#fates div").filter(has_text="Answered")
        await expect(answered).to_contain_text(str(DEAD_LETTERS), timeout=30_000)
        await shot(page, "5-replay")

        await page.goto(f"{at.url}workflow?id=order-1")
        timeline = page.locator(".timeline")
        await expect(timeline).to_contain_text("the profile was misspelt")
        await expect(timeline).to_contain_text("lost-1.replay.1")
        await shot(page, "6-workflow")
        await page.goto(f"{at.url}tail")
        await expect(page.locator("#tail")).to_contain_text("replayed")
        await shot(page, "7-tail")
        assert await page.title() == "Live tail · answerbus"
        assert SCRIPT not in at.log.read_text()
    assert len(await bus.terminals(2 * DEAD_LETTERS + 5)) == 2 * DEAD_LETTERS + 5


async def test_the_way_in_and_a_page_of_nothing_are_accessible_in_all_looks(
    bus: Bus, browser: Browser
) -> None:
    """test_frame.py and test_pictures.py look at the others."""
    config = await bus_with_history(bus)
    async with console(config) as at:
        context = await browser.new_context(viewport=NARROW)
        page = await context.new_page()
        await page.goto(at.url)
        found = await flaws_in_all_looks(page, "login", screens_max=1)
        await log_in(page, at, OPERATOR)
        await page.goto(f"{at.url}workflow?id=nobody")
        found |= await flaws_in_all_looks(page, "nothing", screens_max=1)
        await page.set_viewport_size(NARROW)
        assert await flaws(page) == []
        await context.close()

    assert found == {}


async def test_the_pages_work_by_keyboard_and_without_scripts(bus: Bus, browser: Browser) -> None:
    config = await bus_with_history(bus)
    async with console(config) as at:
        context = await browser.new_context(java_script_enabled=False)
        page = await context.new_page()
        await log_in(page, at, OPERATOR)
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        await page.get_by_role("link", name="Dead letters").press("Enter")
        await page.get_by_role("link", name="1 dead letters of").press("Enter")
        await page.get_by_role("checkbox", name="Choose odd").press("Space")
        await page.get_by_role("button", name="Those chosen below").press("Enter")
        await page.get_by_label("Reason").fill("nobody has that contract")
        await page.get_by_text("Dismiss 1…").press("Enter")
        await page.get_by_role("button", name="Yes, dismiss 1").press("Enter")
        async with asyncio.timeout(20):
            while not await page.get_by_text("Finished: 1 of 1.").is_visible():
                await page.reload()
        await page.get_by_role("link", name="All dead letters").press("Enter")
        await expect(page.locator("#groups")).not_to_contain_text("unknown schema")
        await context.close()
