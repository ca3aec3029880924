"""Signing in at an issuer of another site, in a real browser: its rules for cookies are its own."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.looks import flaws
from tests.unit.console.test_sign_in import door

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
async def test_a_person_comes_back_from_another_site_and_is_in(
    tmp_path: Path, browser: Browser, *, scripts: bool
) -> None:
    async with door(tmp_path, host="localhost") as at:  # the console is at 127.0.0.1
        at.issuer.asks_first = True
        context = await browser.new_context(base_url=at.here.url, java_script_enabled=scripts)
        page = await context.new_page()
        await page.goto("/")
        if scripts:
            assert await flaws(page) == []
        await page.get_by_role("link", name="Sign in at localhost").click()
        await page.get_by_role("link", name="I am Ada").click()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await expect(page.get_by_text("ada@acme.example, operator")).to_be_visible()
        assert page.url == f"{at.here.url}/"

        await page.get_by_role("button", name="Log out").click()
        await page.get_by_role("link", name="log out there, too").click()
        await expect(page.get_by_text("You have left.")).to_be_visible()
        assert page.url.startswith(f"{at.issuer.url}/end?")
        await page.goto("/tail")
        await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        await context.close()
