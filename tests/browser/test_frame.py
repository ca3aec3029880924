"""What is on every page, in a real browser: status, menu, colours, keys, two-line rows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, ViewportSize, expect

from services.console.guard import COOKIE
from tests.browser.filled_site import fill_site, many_records
from tests.browser.looks import DESKTOP, LOOKS, PHONE, SHOWN, flaws_in_all_looks
from tests.browser.made_up import BAD, PATH, made_up
from tests.unit.console.context import NIGHT, Site, site
from tests.unit.operators.runs.events import WORKFLOW
from tests.unit.operators.stored_examples import stored

pytestmark = pytest.mark.browser

# Not by wait_for_function, which the policy of our pages forbids to evaluate a text.
FIRST_PAINT_MS = """new Promise(paint => new PerformanceObserver(all => {
    for (const one of all.getEntriesByName("first-contentful-paint")) paint(one.startTime);
}).observe({type: "paint", buffered: true}))"""
STATUS_LOOK = """(() => {
    const status = document.getElementById("status"), at = status.getBoundingClientRect();
    const style = getComputedStyle(status);
    return {
        back: style.backgroundColor, font: style.font, top: at.top, wide: at.width, high: at.height,
    };
})()"""
SCREENS_MAX = 6
KEYS_MAX = 12
ONE_ROW_PX = 60
PAGES = {
    "overview": "/",
    "groups": "/letters",
    "letters": "/letters/list?q=order&since=6h&cause=budget_exhausted",
    "letter": "/letters/one?id=order-1.step-4.dead-letter",
    "workflow": "/workflow?id=order-1",
    "tail": "/tail",
    "profiles": "/profiles",
    "lanes": "/lanes",
    "money": "/money",
    "runs": "/runs",
    "contracts": "/contracts",
    "topics": "/topics",
    "actions": "/actions",
    "audit": "/audit",
    "letters by cost": "/letters/list?status=any&sort=spent",
}
FULL_PAGES = {
    "overview": "/",
    "runs": "/runs",
    "workflow of runs": f"/workflow?id={WORKFLOW}",
    "profiles": "/profiles",
    "comparison": "/profiles/comparison?name=new-2026-11-22",
    "lanes": "/lanes",
    "money": "/money",
    "actions": "/actions",
    "tail": "/tail",
    "groups of all": "/letters?by=why&by=contract&by=profile&status=any",
}


@asynccontextmanager
async def opened(
    browser: Browser, here: Site, cookie: str, size: ViewportSize = DESKTOP, **more: Any
) -> AsyncIterator[Page]:
    """A page of someone who is logged in."""
    context = await browser.new_context(viewport=size, base_url=here.url, **more)
    await context.add_cookies([{"name": COOKIE, "value": cookie, "url": here.url}])
    yield await context.new_page()
    await context.close()


async def test_the_status_is_painted_while_the_styles_of_the_rest_are_awaited(
    browser: Browser,
) -> None:
    async with made_up() as (here, cookie), opened(browser, here, cookie, PHONE) as page:
        held = asyncio.Event()

        async def hold(route: Route) -> None:
            await held.wait()
            await route.continue_()

        await page.route("**/static/styles.css*", hold)
        await page.goto("/", wait_until="commit")
        assert await page.evaluate(FIRST_PAINT_MS) > 0
        await expect(page.locator("#status")).to_be_in_viewport()
        before = await page.evaluate(STATUS_LOOK)
        assert before["back"] == "rgb(253, 236, 236)"
        assert before["wide"] == PHONE["width"]
        held.set()
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await page.wait_for_load_state("load")
        assert await page.evaluate(STATUS_LOOK) == before


async def test_every_page_is_short_and_accessible_on_phones_desks_and_walls(
    browser: Browser,
) -> None:
    """In each size, and in light and dark by turns."""
    found: dict[str, list[str]] = {}
    async with made_up() as (here, cookie), opened(browser, here, cookie) as page:
        for number, (name, path) in enumerate(PAGES.items()):
            await page.goto(path)
            looks = LOOKS[number % 2 :: 2]
            found |= await flaws_in_all_looks(page, name, screens_max=SCREENS_MAX, looks=looks)

    assert found == {}


async def test_pages_with_much_of_everything_are_short_and_accessible(browser: Browser) -> None:
    found: dict[str, list[str]] = {}
    records = [*many_records(), stored("compared/judged_better")]
    async with made_up(*records) as (here, cookie), opened(browser, here, cookie) as page:
        fill_site(here)
        for name, path in FULL_PAGES.items():
            await page.goto(path)
            found |= await flaws_in_all_looks(
                page, f"{name}-crowded", screens_max=SCREENS_MAX, looks=SHOWN
            )

    assert found == {}


async def test_no_page_is_wider_than_a_tablet_or_half_a_screen(browser: Browser) -> None:
    wide = "document.documentElement.scrollWidth > innerWidth"
    found: list[tuple[str, int]] = []
    async with made_up(*many_records()) as (here, cookie), opened(browser, here, cookie) as page:
        fill_site(here)
        for name, path in {**PAGES, **FULL_PAGES}.items():
            await page.goto(path)
            for width in (710, 820, 960, 1100):  # above 704 px tables are no lists
                await page.set_viewport_size(ViewportSize(width=width, height=900))
                if await page.evaluate(wide):
                    found.append((name, width))

    assert not found, found


async def test_the_status_stands_first_with_counts_and_in_title_and_icon(browser: Browser) -> None:
    sentence = (
        "No connection to 5 profiles since 11:58 UTC: claude, default, gemini, openai, small; "
        "500 requests waiting, the oldest 95 s."
    )
    async with made_up() as (here, cookie), opened(browser, here, cookie) as page:
        for path in PAGES.values():
            await page.goto(path)
            await expect(page.locator("#status")).to_contain_text(sentence)
            assert (await page.title()).startswith("Red: No connection to 5 profiles · ")
            icon = await page.locator("#icon").get_attribute("href")
            assert icon == here.context.static_files.address("icon-red.svg")

        here.context.poller.results.workers = []
        await page.goto("/tail")
        await expect(page.locator("#status")).to_have_class("status amber")
        assert await page.title() == "Live tail · answerbus"


async def test_from_the_red_status_to_the_replayed_group_by_few_keys(browser: Browser) -> None:
    async with made_up() as (here, cookie), opened(browser, here, cookie) as page:
        await page.goto("/")
        await expect(page.get_by_role("button", name="Shortcuts")).to_be_visible()
        steps: list[tuple[str, ...]] = [("s", "g", "d"), ("n", "Enter"), ("n", "x", "Enter")]
        headings = [
            "Dead letters",
            f"Replay or dismiss {BAD} dead letters",
            f"Dry run of {BAD} dead letters",
        ]
        for keys, heading in zip(steps, headings, strict=True):
            for key in keys:
                await page.keyboard.press(key)
            await expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            await expect(page.get_by_role("button", name="Shortcuts")).to_be_visible()
        last = ("n", "Enter")
        for key in last:
            await page.keyboard.press(key)
        await expect(page.get_by_role("heading", level=1)).to_have_text(
            f"Replay of {BAD} dead letters"
        )
        job = here.context.jobs.get(2)

    assert sum(map(len, steps)) + len(last) <= KEYS_MAX
    assert job is not None
    assert (job.action, len(job.keys), job.order.reason) == ("replay", BAD, "x")


async def test_the_header_of_a_desk_has_one_row_with_a_name_in_it(browser: Browser) -> None:
    async with site() as here:
        cookie = await here.log_in(NIGHT)
        async with opened(browser, here, cookie) as page:
            await page.goto("/tail")
            await expect(page.locator(".who")).to_contain_text("night@acme, operator")
            box = await page.locator(".bar").bounding_box()

    assert box is not None
    assert box["height"] < ONE_ROW_PX


async def test_the_palette_finds_pages_and_ids_and_lets_keys_be_switched_off(
    browser: Browser,
) -> None:
    async with made_up() as (here, cookie), opened(browser, here, cookie) as page:
        await page.goto("/")
        await expect(page.get_by_role("button", name="Shortcuts")).to_be_visible()
        await page.keyboard.press("/")
        await expect(page.locator("#palette")).to_be_visible()
        await page.keyboard.type("tai")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Live tail")).to_be_visible()
        await expect(page.get_by_role("button", name="Shortcuts")).to_be_visible()

        await page.keyboard.press("/")
        await page.keyboard.type("order-1.step-4.dead-letter")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text(
            "Dead letter order-1.step-4.dead-letter"
        )
        await expect(page.get_by_role("button", name="Shortcuts")).to_be_visible()

        await page.keyboard.press("/")
        await page.keyboard.press("Escape")
        await expect(page.locator("#palette")).to_be_hidden()
        await page.get_by_role("button", name="Shortcuts").click()
        await page.get_by_label("Shortcuts of one key").uncheck()
        await page.get_by_role("button", name="Close").click()
        await page.reload()
        await expect(page.get_by_role("button", name="Shortcuts")).to_be_visible()
        await page.keyboard.press("/")
        await expect(page.locator("#palette")).to_be_hidden()


async def test_colours_are_chosen_and_kept_without_scripts(browser: Browser) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    async with made_up() as (here, cookie), opened(browser, here, cookie) as page:
        await page.goto("/letters?by=why")
        light = await page.evaluate(back)
        await page.get_by_role("button", name="Dark").click()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert page.url.endswith("/letters?by=why")
        dark = await page.evaluate(back)
        await page.goto("/tail")

        assert light == "rgb(255, 255, 255)"
        assert dark != light
        assert await page.evaluate(back) == dark

    async with (
        made_up() as (here, cookie),
        opened(browser, here, cookie, PHONE, java_script_enabled=False) as page,
    ):
        await page.goto("/")
        tail = page.get_by_role("link", name="Tail", exact=True)
        await expect(tail).to_be_hidden()
        await page.get_by_role("button", name="Menu").click()
        await tail.click()
        await expect(page.get_by_role("heading", name="Live tail")).to_be_visible()
        await page.get_by_role("button", name="Dark").click()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert page.url.endswith("/tail")


async def test_times_stand_beside_those_of_the_browser(browser: Browser) -> None:
    async with (
        made_up() as (here, cookie),
        opened(browser, here, cookie, timezone_id="Europe/Berlin") as page,
    ):
        await page.goto("/letters/list")
        await page.wait_for_function("document.cookie.includes('answerbus_zone')")
        await page.reload()
        await expect(page.locator("time + .local").first).to_contain_text("CET")


async def test_filters_are_chips_and_attempts_are_tabs(browser: Browser) -> None:
    async with made_up() as (here, cookie), opened(browser, here, cookie) as page:
        await page.goto("/letters")
        await page.get_by_label("Text", exact=True).fill("order-1.")
        await page.get_by_label("Died").select_option("last hour")
        await page.get_by_role("button", name="Show").first.click()
        await expect(page.locator("#groups")).to_contain_text("3 dead letters")
        await page.get_by_role("link", name="without text").click()
        await expect(page.locator("#groups")).not_to_contain_text("3 dead letters")
        assert "since=1h" in page.url

        await page.goto("/letters/one?id=order-1.step-4.dead-letter")
        await expect(page.locator("#attempt .marked")).to_contain_text("npm up")
        await expect(page.locator("#attempt .fault")).to_contain_text(PATH)
        await expect(page.locator("#attempt .rule")).to_contain_text("args")
        await page.get_by_role("link", name="Attempt 1").click()
        await expect(page.locator("#attempt .marked")).to_contain_text("npm i")
