"""Signing in at an issuer: over HTTP, with an issuer that does as it should."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from aiohttp import ClientResponse

from services.console.access.sign_in import SIGN_IN_S, SignIns
from services.console.guard import COOKIE
from services.console.oidc.issuer import PATH
from services.console.pages.sign_in import COOKIE as SIGN_IN_COOKIE
from services.settings.console import ConsoleSettings, OidcSettings
from services.settings.settings import Settings
from tests.unit.console.context import NIGHT, OPERATOR, Site, site
from tests.unit.console.issuer import CLIENT, SECRET, FakeIssuer, issuing
from tests.unit.operators.stored_examples import stored

DEAD_LETTER = "lost.dead-letter"
LOST = stored("dead_letter/unknown_profile", dead_letter_id=DEAD_LETTER)


@dataclass(frozen=True)
class Door:
    """A console, and the issuer that its people sign in at."""

    here: Site
    issuer: FakeIssuer

    async def leave(self) -> tuple[str, str]:
        """Where a browser is sent, and the cookie that it keeps meanwhile."""
        response = await self.here.get("/login/issuer")
        assert response.status == 303, await response.text()
        return response.headers["Location"], response.cookies[SIGN_IN_COOKIE].value

    async def back(self, address: str, cookie: str) -> ClientResponse:
        """What the console answers to a browser that comes back."""
        return await self.here.client.get(
            address, headers={"Cookie": f"{SIGN_IN_COOKIE}={cookie}"}, allow_redirects=False
        )

    async def sign_in(self) -> ClientResponse:
        """All the way, as a browser goes it."""
        address, cookie = await self.leave()
        return await self.back(self.issuer.authorize(query_of(address)), cookie)


def query_of(address: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(address).query, strict_parsing=True))


@asynccontextmanager
async def door(tmp_path: Path, host: str = "127.0.0.1", **settings: Any) -> AsyncIterator[Door]:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    async with issuing(host) as issuer:
        chosen = {
            "issuer": issuer.url,
            "client_id": CLIENT,
            "client_secret_file": secret,
            "operators": ("bus-operators",),
            "viewers": ("staff",),
            **settings,
        }
        console = ConsoleSettings(oidc=OidcSettings(**chosen))
        async with site(LOST, settings=Settings(console=console)) as here:
            yield Door(here, issuer)


async def refusal(response: ClientResponse) -> str:
    """The one sentence; no one was let in."""
    text = await response.text()
    found = re.search(r'role="alert">([^<]*)<', text)
    assert response.status in (403, 502), text
    assert COOKIE not in response.cookies
    assert found
    return found[1]


async def test_a_person_signs_in_and_acts_by_their_own_name(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        assert "/login/issuer" in await (await at.here.get("/login")).text()

        response = await at.sign_in()
        text = await response.text()

        assert response.status == 200, text
        assert "You are signed in as ada@acme.example" in text
        assert '<meta http-equiv="refresh" content="0;url=/">' in text
        cookie = response.cookies[COOKIE].value
        overview = await (await at.here.get("/", cookie)).text()
        assert "ada@acme.example, operator" in overview
        csrf = re.search(r'name="csrf" value="([^"]+)"', overview)
        assert csrf
        form = {"csrf": csrf[1], "id": DEAD_LETTER, "action": "replay", "new-reason": "why not"}
        done = await at.here.post("/letters/jobs", form, cookie)
        assert done.headers["Location"] == "/letters/jobs/1"
        job = at.here.context.jobs.get(1)
        assert job is not None
        assert job.order.by == "ada@acme.example"


async def test_what_is_sent_to_the_issuer_is_new_each_time_and_says_no_secret(
    tmp_path: Path,
) -> None:
    async with door(tmp_path) as at:
        (address, cookie), (other, _) = await at.leave(), await at.leave()
        query = query_of(address)

        assert address.startswith(f"{at.issuer.url}/authorize?tenant=acme&")
        assert query["redirect_uri"] == f"{at.here.url}/login/callback"
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        for name in ("state", "nonce", "code_challenge"):
            assert len(query[name]) == 43
            assert query[name] != query_of(other)[name]
        assert cookie not in address
        assert SECRET not in address
        assert at.issuer.asked == [PATH], "its addresses are asked for once"


async def test_the_cookies_are_for_no_script_and_the_session_for_no_other_site(
    tmp_path: Path,
) -> None:
    async with door(tmp_path) as at:
        left = await at.here.get("/login/issuer")
        (meanwhile,) = SimpleCookie(left.headers["Set-Cookie"]).values()
        session = (await at.sign_in()).cookies

        assert (meanwhile["samesite"], meanwhile["path"]) == ("Lax", "/login")
        assert meanwhile["httponly"]
        assert int(meanwhile["max-age"]) == SIGN_IN_S
        assert (session[COOKIE]["samesite"], session[COOKIE]["path"]) == ("Strict", "/")
        assert session[COOKIE]["httponly"]
        assert session[SIGN_IN_COOKIE]["max-age"] == "0"


@pytest.mark.parametrize(
    ("settings", "person", "shown"),
    [
        ({}, {"groups": ["staff"]}, "ada@acme.example, viewer"),
        ({}, {"groups": "bus-operators"}, "ada@acme.example, operator"),
        ({"role_claim": "realm_access.roles"}, {"realm_access": {"roles": ["staff"]}}, "viewer"),
        ({"role_claim": "https://a.example/r"}, {"https://a.example/r": ["staff"]}, "viewer"),
        ({"name_claim": "name"}, {"name": "Ada Lovelace"}, "Ada Lovelace, operator"),
        ({"name_claim": "sub"}, {}, "4711, operator"),
        (
            {"name_claim": "email"},
            {"email": "a@b.example", "email_verified": True},
            "a@b.example, operator",
        ),
    ],
)
async def test_claims_say_who_and_which_role(
    tmp_path: Path, settings: dict[str, Any], person: dict[str, Any], shown: str
) -> None:
    async with door(tmp_path, **settings) as at:
        at.issuer.person |= person
        cookie = (await at.sign_in()).cookies[COOKIE].value

        assert shown in await (await at.here.get("/", cookie)).text()


async def test_tokens_go_on_beside_the_issuer(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        for token in (OPERATOR, NIGHT):
            assert (await at.here.get("/", await at.here.log_in(token))).status == 200


async def test_a_client_is_known_as_the_issuer_wants_it(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        at.issuer.known_by = "form"
        at.issuer.change_metadata = lambda found: found.update(
            token_endpoint_auth_methods_supported=["client_secret_post"]
        )
        assert (await at.sign_in()).status == 200

    async with door(tmp_path, client_secret_file=None) as at:
        assert "invalid_grant" in await refusal(await at.sign_in()), "this one wants a secret"
        at.issuer.known_by = "nothing"
        assert (await at.sign_in()).status == 200


async def test_the_secret_of_the_client_is_read_again(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        (tmp_path / "secret").write_text("another")
        assert "invalid_grant" in await refusal(await at.sign_in())

        (tmp_path / "secret").write_text(SECRET)
        assert (await at.sign_in()).status == 200


async def test_keys_may_change_at_any_time(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        assert (await at.sign_in()).status == 200

        at.issuer.key_number = 1
        assert (await at.sign_in()).status == 200

        at.issuer.change_header = lambda header: header.update(kid="key-0")  # was withdrawn
        assert "a key that the issuer does not publish" in await refusal(await at.sign_in())


async def test_logging_out_leads_to_the_issuer(tmp_path: Path) -> None:
    async with door(tmp_path) as at:
        cookie = (await at.sign_in()).cookies[COOKIE].value
        overview = await (await at.here.get("/", cookie)).text()
        csrf = re.search(r'name="csrf" value="([^"]+)"', overview)
        assert csrf

        response = await at.here.post("/logout", {"csrf": csrf[1]}, cookie)
        assert (await at.here.get("/", cookie)).status == 303, "the session is over"

        assert response.headers["Location"] == "/login?left=1"
        login = await (await at.here.get("/login?left=1")).text()
        assert "log out there, too" in login
        address = (await at.here.get("/login/logout")).headers["Location"]
        assert address.partition("?")[0] == f"{at.issuer.url}/end"
        assert query_of(address) == {
            "client_id": CLIENT,
            "post_logout_redirect_uri": f"{at.here.url}/login",
        }


async def test_without_an_issuer_there_is_no_way_to_one() -> None:
    async with site() as here:
        assert "/login/issuer" not in await (await here.get("/login")).text()
        for path in ("/login/issuer", "/login/callback?state=x&code=y", "/login/logout"):
            assert (await here.get(path)).status == 404


def test_a_sign_in_is_good_once_in_time_and_where_it_was_begun() -> None:
    sign_ins = SignIns(b"key")
    begun, other = sign_ins.begin("one", 100.7), sign_ins.begin("two", 100)

    assert sign_ins.resume(begun.cookie, other.state, 101) is None
    assert sign_ins.resume(begun.cookie, begun.state, 100 + SIGN_IN_S) is None
    assert SignIns(b"other").resume(begun.cookie, begun.state, 101) is None
    for cookie in ("", ".", "..", "x", f"9{begun.cookie}", f"{begun.cookie}x", "\udcff.x.y"):
        assert sign_ins.resume(cookie, begun.state, 101) is None
    assert sign_ins.resume(begun.cookie, begun.state, 99 + SIGN_IN_S) == begun
    assert sign_ins.resume(begun.cookie, begun.state, 101) is None
    assert "one" not in repr(begun)
