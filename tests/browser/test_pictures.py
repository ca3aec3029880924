"""The pictures of the console in a real browser: readable, reached by keyboard, live and steady."""

import asyncio
import json
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.console import OPERATOR, Console, console
from tests.browser.looks import DESKTOP, flaws_in_all_looks
from tests.browser.test_console import bus_with_history, log_in
from tests.integration.bus import ROOT, Bus, request

pytestmark = [pytest.mark.kafka, pytest.mark.browser]

LIVE_MS = 30_000  # a stream looks every 2 s
PICTURES = {
    "overview": "",
    "profiles": "profiles",
    "lanes": "lanes",
    "money": "money",
    "workflow": "workflow?id=order-0",
    "topics": "topics",
    "audit": "audit",
}
SCREENS_MAX = 6


async def test_pictures_are_accessible_by_keyboard_live_and_steady(
    bus: Bus, browser: Browser
) -> None:
    config = await bus_with_history(bus)
    async with console(config) as at:
        page = await browser.new_page(viewport=DESKTOP)
        await log_in(page, at, OPERATOR)
        await _read_a_chart_by_keyboard(page)
        await _brush_a_time(page, at)
        await _verify(page, at)
        await _follow_the_tail(page, at, bus)
        await page.goto(f"{at.url}topics")
        await expect(page.locator("#groups")).to_contain_text("the workers", timeout=LIVE_MS)
        assert await _flaws_of_all(browser, at) == {}
    found = await _top(config)
    assert found["outcomes"] | {"dead": 6} == found["outcomes"]
    assert sum(found["open_letters"].values()) == 6
    assert found["lag"] is not None


async def _top(config: Path) -> dict[str, Any]:
    """The same bus in a terminal, once, for programs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.cli", "top", "--json", "--config", str(config)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


async def _read_a_chart_by_keyboard(page: Page) -> None:
    """One stop of the Tab key, arrows between the columns, Enter to the time of one."""
    chart = page.get_by_role("group", name="Outcomes per minute")
    await expect(chart).to_be_visible()
    assert await chart.locator("a[tabindex='0']").count() == 1
    await chart.locator("a[tabindex='0']").focus()
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator(".tip")).to_be_visible()
    label = await chart.locator("a:focus").get_attribute("aria-label")
    assert label == await page.locator(".tip").text_content()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("from=.*&to="))


async def _brush_a_time(page: Page, at: Console) -> None:
    """From one column to another, both included."""
    await page.goto(at.url)
    columns = page.get_by_role("group", name="Outcomes per minute").locator("a.col")
    await columns.nth(10).hover()
    await page.mouse.down()
    await columns.nth(20).hover()
    await page.mouse.up()
    await expect(page.get_by_role("link", name=" UTC ×")).to_be_visible()
    query = parse_qs(urlsplit(page.url).query)
    begin, end = (datetime.fromisoformat(query[name][0]) for name in ("from", "to"))
    assert end - begin == timedelta(minutes=11)


async def _verify(page: Page, at: Console) -> None:
    await page.goto(f"{at.url}audit")
    await page.get_by_role("button", name="Verify now").click()
    await expect(page.locator("#audit")).to_contain_text("no differences", timeout=LIVE_MS)


async def _follow_the_tail(page: Page, at: Console, bus: Bus) -> None:
    """New records come without loading the page; what is selected stays until it is not."""
    await page.goto(f"{at.url}tail")
    await page.evaluate("window.isSamePage = true")
    await bus.publish([request("live-1", "order-live")])
    tail = page.locator("#tail")
    await expect(tail).to_contain_text("live-1", timeout=LIVE_MS)

    await page.evaluate(
        "getSelection().selectAllChildren(document.querySelector('#tail tbody tr th, #tail td'))"
    )
    chosen = await page.evaluate("getSelection().toString()")
    await bus.publish([request("live-2", "order-live")])
    await expect(page.locator("#pause.waits")).to_be_visible(timeout=LIVE_MS)
    assert await page.evaluate("getSelection().toString()") == chosen
    await expect(tail).not_to_contain_text("live-2")
    await page.evaluate("getSelection().removeAllRanges()")
    await expect(tail).to_contain_text("live-2", timeout=LIVE_MS)
    assert await page.evaluate("window.isSamePage")


async def _flaws_of_all(browser: Browser, at: Console) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    page = await browser.new_page(viewport=DESKTOP)
    await log_in(page, at, OPERATOR)
    for title, path in PICTURES.items():
        await page.goto(at.url + path)
        found |= await flaws_in_all_looks(page, f"{title}-live", screens_max=SCREENS_MAX)
    return found
