"""As a new operator opens the console: what is wrong is named in what is seen first, and soon."""

import time

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from tests.browser.looks import DESKTOP, PHONE, shot
from tests.browser.test_frame import opened
from tests.unit.console.context import OPERATOR, site
from tests.unit.console.test_troubles import NAMED_WITHIN_S, TROUBLES

pytestmark = pytest.mark.browser

NAMED: dict[str, tuple[str, ...]] = {
    "provider": ("Profile claude gives no answers",),
    "schema": ("20 of 20 requests died in the last 15 min", "/actions/0/args is not JSON"),
    "lane": ("Lane 3 is stuck", "at http://w-1:8080: it waits for its predecessor"),
}


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("trouble", NAMED)
async def test_a_planted_fault_is_seen_without_scrolling(
    browser: Browser, trouble: str, size: ViewportSize
) -> None:
    async with site() as here:
        TROUBLES[trouble][0](here)
        cookie = await here.log_in(OPERATOR)
        async with opened(browser, here, cookie, size) as page:
            began = time.monotonic()
            await page.goto("/", wait_until="commit")
            for sentence in NAMED[trouble]:
                found = page.locator("#status").get_by_text(sentence)
                await expect(found).to_be_in_viewport(timeout=NAMED_WITHIN_S * 1_000)
            took_s = time.monotonic() - began
            assert await page.evaluate("scrollY") == 0
            await shot(page, f"trouble-{trouble}-{size['width']}")

    assert took_s < NAMED_WITHIN_S


async def test_keys_lead_from_a_fault_to_its_dead_letters(browser: Browser) -> None:
    async with site() as here:
        TROUBLES["schema"][0](here)
        cookie = await here.log_in(OPERATOR)
        async with opened(browser, here, cookie) as page:
            await page.goto("/")
            await expect(page.get_by_role("button", name="Shortcuts")).to_be_visible()
            await page.keyboard.press("s")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
            await expect(page.locator("#groups tbody tr").first).to_contain_text("20")
