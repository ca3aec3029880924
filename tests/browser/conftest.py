"""A real browser, and the broker of the integration tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

from infra.browser import chromium
from tests.integration.conftest import bus, kafka_bootstrap, make_prefix

__all__ = ["browser", "bus", "chromium_path", "kafka_bootstrap", "make_prefix"]


@pytest.fixture(scope="session")
def chromium_path() -> Path:
    """SetupError says what to do where there is none: the console's tests are never skipped."""
    return chromium()


@pytest.fixture
async def browser(chromium_path: Path) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        # Chromium's own sandbox does not work for root, which is who runs in containers.
        found = await playwright.chromium.launch(
            executable_path=chromium_path, args=["--no-sandbox"]
        )
        yield found
        await found.close()
