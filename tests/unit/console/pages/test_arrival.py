"""A link leads to its page: from other sites, and through the login."""

import re

import pytest

from services.console.pages.arrival import COOKIE as GOAL
from services.console.pages.arrival import GOAL_CHARS_MAX
from tests.unit.console.context import OPERATOR, site

LINK = "/letters/list?label:tenant=acme%20%3B%22x%22&since=1h"
PAGE = {"Accept": "text/html,*/*"}


async def test_the_login_leads_to_the_page_that_was_asked_for() -> None:
    async with site() as here:
        asked = await here.get(LINK, **PAGE)
        assert (asked.status, asked.headers["Location"]) == (303, "/login")
        kept = asked.cookies[GOAL]

        headers = {"Cookie": f"{GOAL}={kept.coded_value}"}
        let_in = await here.post("/login", {"token": OPERATOR}, **headers)

        assert (let_in.status, let_in.headers["Location"]) == (303, LINK)
        assert let_in.cookies[GOAL]["max-age"] == "0"


async def test_a_part_of_a_page_is_no_place_to_go_to() -> None:
    async with site() as here:
        assert GOAL not in (await here.get(LINK)).cookies
        assert GOAL not in (await here.get("/letters", Accept="text/event-stream")).cookies


@pytest.mark.parametrize(
    "kept", ["//evil.example/", "/\\evil.example", "https://evil.example", "x", "/" + "y" * 2_000]
)
async def test_a_login_leads_to_no_other_site(kept: str) -> None:
    assert len("/" + "y" * 2_000) > GOAL_CHARS_MAX
    async with site() as here:
        headers = {"Cookie": f"{GOAL}={kept}"}
        let_in = await here.post("/login", {"token": OPERATOR}, **headers)

        assert let_in.headers["Location"] == "/"


async def test_a_link_on_another_site_is_asked_for_again_with_the_cookie_of_the_session() -> None:
    async with site() as here:
        cookie = await here.log_in(OPERATOR)
        elsewhere = {"Sec-Fetch-Site": "cross-site", **PAGE}

        first = await here.get(LINK, **elsewhere)

        assert first.status == 200
        found = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', await first.text())
        assert found
        again = found[1].replace("&amp;", "&")
        assert again == LINK
        assert (await here.get(again, cookie, **{"Sec-Fetch-Site": "same-origin"})).status == 200
        assert (await here.get(LINK, cookie, **elsewhere)).status == 200
