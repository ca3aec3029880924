"""How a page looks in each size and colour, as axe sees it: loaded once, which costs most."""

from collections.abc import Sequence
from itertools import product
from typing import Any, Literal

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, ViewportSize

from tests.integration.bus import ROOT

SCREENSHOTS = ROOT / ".run" / "screenshots"
DESKTOP = ViewportSize(width=1280, height=900)
PHONE = ViewportSize(width=390, height=844)
WALL = ViewportSize(width=1920, height=1080)
Scheme = Literal["light", "dark"]
Look = tuple[ViewportSize, Scheme]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
LOOKS: Sequence[Look] = tuple(product((DESKTOP, PHONE, WALL), SCHEMES))
SHOWN: Sequence[Look] = ((DESKTOP, "light"), (PHONE, "dark"))  # of these a screenshot is left
SERIOUS = ("serious", "critical")
# What size and colour may change; the rest is a matter of the document.
OF_LOOKS = {"runOnly": ["color-contrast", "target-size", "scrollable-region-focusable"]}

# What passes is only counted: its elements are many thousands, and would be sent here.
VIOLATIONS = """async options => {
    const found = await axe.run({...options, resultTypes: ["violations"]});
    const violations = found.violations.map(
        ({id, impact, nodes}) => ({id, impact, nodes: nodes.map(node => node.html)}));
    return {passes: found.passes.length, violations};
}"""


async def shot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


async def flaws(page: Page, options: dict[str, Any] | None = None) -> list[str]:
    """What axe finds serious, and whether the page is wider than its window."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(Axe().axe_script)
    found = await page.evaluate(VIOLATIONS, options or {})
    assert found["passes"], "axe has looked at nothing"
    texts = [
        f"{flaw['id']}: {html}"
        for flaw in found["violations"]
        if flaw["impact"] in SERIOUS
        for html in flaw["nodes"]
    ]
    wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return [*texts, *(["it is wider than its window"] if wide else [])]


async def flaws_in_all_looks(
    page: Page, name: str, *, screens_max: int, looks: Sequence[Look] = LOOKS
) -> dict[str, list[str]]:
    """By size and colours; on a phone a page has at most so many screens."""
    found: dict[str, list[str]] = {}
    for number, (size, scheme) in enumerate(looks):
        await page.set_viewport_size(size)
        await page.emulate_media(color_scheme=scheme)
        look = f"{name}-{size['width']}-{scheme}"
        if (size, scheme) in SHOWN:
            await shot(page, look)
        found[look] = await flaws(page, OF_LOOKS if number else None)
        height = await page.evaluate("document.documentElement.scrollHeight")
        if size is PHONE and height > screens_max * PHONE["height"]:
            found[look].append(f"{height} px high")
    return {look: text for look, text in found.items() if text}
