"""Who gets in, who may act, and what is refused: over HTTP, page by page."""

import asyncio
import re
from collections import Counter
from http.cookies import SimpleCookie

import pytest

from services.console.access import login_throttle
from services.console.access.login_throttle import BURST, LoginThrottle
from services.console.access.origins import advice_on, origins_of
from services.console.access.sessions import SESSIONS_MAX, Session, Sessions
from services.console.access.tokens import Role, TokenHolder, Tokens, may_start
from services.console.guard import COOKIE
from tests.unit.console.context import NIGHT, OPERATOR, VIEWER, Site, paths, site
from tests.unit.operators.stored_examples import stored

DEAD_LETTER = "lost.dead-letter"
LOST = stored("dead_letter/unknown_profile", dead_letter_id=DEAD_LETTER)
PAGES = (
    *(path for path in paths("GET") if not path.startswith("/login")),
    f"/letters/one?id={DEAD_LETTER}",
    "/workflow?id=order-4711",
)
ACTS = tuple(path for path in paths("POST") if path != "/login")


async def csrf(here: Site, cookie: str) -> str:
    text = await (await here.get("/", cookie)).text()
    found = re.search(r'name="csrf" value="([^"]+)"', text)
    assert found
    return found[1]


def replay(secret: str) -> dict[str, str]:
    return {"csrf": secret, "id": DEAD_LETTER, "action": "replay", "new-reason": "why not"}


def nothing_was_done(here: Site) -> bool:
    return here.context.jobs.get(1) is None


@pytest.mark.parametrize("path", [*PAGES, "/letters/jobs/1", "/no-such-page"])
async def test_no_page_is_shown_without_a_login(path: str) -> None:
    async with site(LOST) as here:
        for cookie in ("", "x" * 43):
            response = await here.get(path, cookie)

            assert (response.status, response.headers["Location"]) == (303, "/login")
            assert DEAD_LETTER not in await response.text()


@pytest.mark.parametrize("path", ACTS)
async def test_nothing_is_done_without_logging_in(path: str) -> None:
    async with site(LOST) as here:
        response = await here.post(path, replay("guess"))

        assert response.status == 401
        assert nothing_was_done(here)


@pytest.mark.parametrize("token", ["", "wrong", OPERATOR[:-1], OPERATOR + "x", "töken"])
async def test_a_wrong_token_opens_nothing(token: str) -> None:
    async with site() as here:
        response = await here.post("/login", {"token": token})

        assert response.status == 403
        assert "Set-Cookie" not in response.headers


async def test_who_is_logged_in_can_log_in_by_another_token() -> None:
    async with site() as here:
        cookie = await here.log_in(VIEWER)
        page = await (await here.get("/login", cookie)).text()
        form = page[page.index('action="/login"') :]
        (secret,) = re.findall(r'name="csrf" value="([^"]+)"', form[: form.index("</form>")])
        response = await here.post("/login", {"token": OPERATOR, "csrf": secret}, cookie)

        assert response.status == 303
        assert response.cookies[COOKIE].value != cookie


async def test_the_address_that_is_printed_lets_in_and_is_left_behind() -> None:
    async with site(tokens=Tokens(OPERATOR, VIEWER, made_up_for="me")) as here:
        response = await here.get(f"/login?token={OPERATOR}")

        assert (response.status, response.headers["Location"]) == (303, "/")
        for other in ("wrong", VIEWER):
            assert (await here.get(f"/login?token={other}")).status == 403


async def test_pictures_in_pages_of_others_use_up_no_tries() -> None:
    image = {"Sec-Fetch-Dest": "image", "Sec-Fetch-Site": "cross-site"}
    async with site(tokens=Tokens(OPERATOR, VIEWER, made_up_for="me")) as here:
        for _ in range(100):
            assert (await here.get(f"/login?token={OPERATOR}", **image)).status == 403
        assert (await here.post("/login", {"token": OPERATOR})).status == 303
    async with site() as here:  # no token may stand in an address
        for _ in range(100):
            assert (await here.get("/login?token=guess")).status == 403
        assert (await here.post("/login", {"token": OPERATOR})).status == 303


@pytest.mark.parametrize("token", [OPERATOR, VIEWER, NIGHT])
async def test_a_token_that_was_set_is_taken_from_no_address(token: str) -> None:
    """Addresses are kept by browsers and logged by proxies."""
    async with site() as here:
        response = await here.get(f"/login?token={token}")

        assert response.status == 403
        assert "Set-Cookie" not in response.headers
        assert token not in await response.text()


async def test_the_cookie_is_for_no_script_and_no_other_site() -> None:
    async with site() as here:
        response = await here.post("/login", {"token": VIEWER})
        (cookie,) = SimpleCookie(response.headers["Set-Cookie"]).values()

        assert cookie["httponly"]
        assert (cookie["samesite"], cookie["path"]) == ("Strict", "/")


async def test_a_form_without_the_secret_of_the_session_does_nothing() -> None:
    async with site(LOST) as here:
        mine, other = await here.log_in(OPERATOR), await here.log_in(OPERATOR)
        for secret in ("", "guess", await csrf(here, other)):
            response = await here.post("/letters/jobs", replay(secret), mine)

            assert response.status == 403
        assert nothing_was_done(here)


@pytest.mark.parametrize("sign", ["%", "&", "x"])
async def test_little_is_read_of_someone_who_is_not_known(sign: str) -> None:
    async with site() as here:
        response = await here.post("/login", {"token": sign * 100_000})
        assert response.status == 413


@pytest.mark.wide
@pytest.mark.parametrize(
    ("origin", "site_of_fetch"),
    [
        ("https://evil.example", None),
        ("http://127.0.0.1:1", None),
        ("null", "cross-site"),
        ("", "cross-site"),  # our own name, sent from elsewhere
        (None, None),
        (None, "cross-site"),
        (None, "same-site"),
        (None, "none"),
    ],
)
@pytest.mark.parametrize("path", [*ACTS, "/login"])
async def test_a_form_from_elsewhere_does_nothing_even_with_cookie_and_secret(
    path: str, origin: str | None, site_of_fetch: str | None
) -> None:
    headers = {"Sec-Fetch-Site": site_of_fetch} if site_of_fetch else {}
    async with site(LOST) as here:
        cookie = await here.log_in(OPERATOR)
        form = {**replay(await csrf(here, cookie)), "token": OPERATOR}

        response = await here.post(path, form, cookie, origin, **headers)

        assert response.status == 403
        assert "Set-Cookie" not in response.headers
        assert nothing_was_done(here)
        assert (await here.get("/", cookie)).status == 200  # still logged in


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", ""])
@pytest.mark.parametrize("path", ["/", "/login", "/static/scripts.js"])
async def test_a_name_that_was_rebound_to_our_address_is_not_served(host: str, path: str) -> None:
    async with site(LOST) as here:
        cookie = await here.log_in(OPERATOR)
        port = here.url.rpartition(":")[2]

        response = await here.get(path, cookie, Host=host.format(port=port))

        assert response.status == 421
        assert (await here.get("/", cookie, Host=f"localhost:{port}")).status == 200


async def test_viewers_may_look_and_not_act() -> None:
    async with site(LOST) as here:
        cookie = await here.log_in(VIEWER)
        secret = await csrf(here, cookie)
        for path in ("/letters/plan", "/letters/jobs"):
            assert (await here.post(path, replay(secret), cookie)).status == 403
        assert (await here.get("/letters/jobs/1", cookie)).status == 403
        assert nothing_was_done(here)


@pytest.mark.parametrize(("token", "name"), [(NIGHT, "night@acme"), (OPERATOR, "operator")])
async def test_operators_may_act_and_the_token_says_who_they_are(token: str, name: str) -> None:
    """Not they themselves: what is recorded is to be true."""
    claims = dict.fromkeys(("name", "by", "new-by"), "boss@acme")
    async with site(LOST) as here:
        login = await here.post("/login", {"token": token, **claims})
        cookie = login.cookies[COOKIE].value

        form = {**replay(await csrf(here, cookie)), **claims}
        response = await here.post("/letters/jobs", form, cookie)

        assert (response.status, response.headers["Location"]) == (303, "/letters/jobs/1")
        job = here.context.jobs.get(1)
        assert job is not None
        assert (job.action, job.order.by) == ("replay", name)
        assert [key.dead_letter_id for key in job.keys] == [DEAD_LETTER]


async def test_logging_out_ends_the_session() -> None:
    async with site() as here:
        cookie = await here.log_in(OPERATOR)

        response = await here.post("/logout", {"csrf": await csrf(here, cookie)}, cookie)

        assert response.headers["Location"] == "/login"
        assert (await here.get("/", cookie)).status == 303


@pytest.mark.parametrize("path", [*PAGES, "/login", "/static/scripts.js", "/nothing"])
async def test_browsers_get_strict_headers(path: str) -> None:
    async with site(LOST) as here:
        response = await here.get(path, await here.log_in(OPERATOR))
        await response.read()  # some are long, and would keep their connection

        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self' 'sha256-")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "Server" not in response.headers


def test_beyond_this_machine_a_token_is_required() -> None:
    assert may_start("127.0.0.1", None, None) is None
    assert may_start("0.0.0.0", "x" * 16, None) is None
    assert may_start("0.0.0.0", None, None, {"night": "x" * 16}) is None
    assert may_start("0.0.0.0", None, None, has_issuer=True) is None
    for operator, viewer in ((None, None), (None, "x" * 16)):
        assert "needs a token" in (may_start("0.0.0.0", operator, viewer) or "")
    twice = may_start("127.0.0.1", "x" * 16, None, {"night": "x" * 16})
    assert "same token" in (twice or "")
    assert "less than 16" in (may_start("127.0.0.1", "short", None) or "")
    assert "same token" in (may_start("127.0.0.1", "x" * 16, "x" * 16) or "")


def test_no_token_at_all_lets_no_viewer_in() -> None:
    assert Tokens("x" * 16).holder_of("") is None
    assert Tokens("x" * 16, "y" * 16).holder_of("y" * 16) == TokenHolder(Role.VIEWER, "viewer")
    assert Tokens(None).holder_of("") is None


def test_secrets_are_not_shown() -> None:
    shown = repr((Tokens("operators-secret", "viewers-secret"), session(0)))

    assert "secret" not in shown


def session(ends_s: float, name: str = "viewer", role: Role = Role.VIEWER) -> Session:
    return Session(role, name, "csrf-secret", ends_s)


def test_a_session_ends() -> None:
    sessions = Sessions()
    sessions.add("secret", session(100))

    assert sessions.find("secret", 99) == session(100)
    assert sessions.find("secret", 100) is None
    assert sessions.find("secret", 99) is None


@pytest.mark.wide
async def test_a_thousand_viewers_put_no_operator_out() -> None:
    async with site() as here:
        cookies = [await here.log_in(token) for token in (OPERATOR, NIGHT)]
        for _ in range(SESSIONS_MAX + 1):
            await here.log_in(VIEWER)

        for cookie in cookies:
            assert (await here.get("/", cookie)).status == 200


def test_of_too_many_by_one_token_the_one_unused_for_longest_is_out() -> None:
    sessions = Sessions()
    for number in range(SESSIONS_MAX):
        sessions.add(f"secret-{number}", session(100))
    assert sessions.find("secret-0", 1)

    sessions.add("other", session(100, "night", Role.OPERATOR))
    assert sessions.find("secret-1", 1)
    sessions.add("one-more", session(100))

    kept = [number for number in range(SESSIONS_MAX) if sessions.find(f"secret-{number}", 1)]
    assert len(kept) == SESSIONS_MAX - 1
    assert 2 not in kept


def test_a_proxy_in_front_has_its_own_name() -> None:
    names = origins_of("0.0.0.0", 8090, "https://Answers.Acme.example/")

    assert names.is_host("answers.acme.example")
    assert names.is_own("https://answers.acme.example", "same-origin")
    assert not names.is_own("http://answers.acme.example", "same-origin")
    assert not names.is_host("answers.acme.example.evil.example")
    assert origins_of("::1", 80, None).is_host("[::1]:80")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.example:443", "a.example"),
        ("http://10.0.0.7:80/", "10.0.0.7"),
        ("http://10.0.0.7:8090", "10.0.0.7:8090"),
        ("https://bücher.example", "xn--bcher-kva.example"),
        ("https://[fd00::1]:8443", "[fd00::1]:8443"),
    ],
)
def test_a_public_url_is_known_as_browsers_write_it(url: str, host: str) -> None:
    names = origins_of("0.0.0.0", 8090, url)

    assert names.is_host(host)
    assert names.is_own(f"{url.partition(':')[0]}://{host}", "same-origin")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_at_every_address_it_answers_this_machine_and_says_what_to_set(host: str) -> None:
    names = origins_of(host, 8090, None)

    assert names.is_host("127.0.0.1:8090")
    assert not names.is_host("evil.example:8090")
    assert "console.public_url" in (advice_on(host, None) or "")
    assert advice_on(host, "http://10.0.0.7:8090") is None
    assert origins_of(host, 8090, "http://10.0.0.7:8090").is_host("10.0.0.7:8090")
    assert advice_on("127.0.0.1", None) is None


def test_browsers_leave_the_port_of_http_out() -> None:
    names = origins_of("127.0.0.1", 80, None)

    assert names.is_host("localhost")
    assert names.is_host("[::1]")
    assert names.is_own("http://localhost", "same-origin")
    assert not origins_of("127.0.0.1", 8090, None).is_host("localhost")


@pytest.mark.wide
async def test_a_right_token_among_guesses_is_looked_at_no_sooner_than_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or guesses would not be bounded: only answers to wrong ones would."""
    monkeypatch.setattr(login_throttle, "INTERVAL_S", 0.3)
    monkeypatch.setattr(login_throttle, "WAIT_S_MAX", 0.5)
    now_s, wait_s = 0.0, LoginThrottle.wait_s
    monkeypatch.setattr(LoginThrottle, "wait_s", lambda self, name, _: wait_s(self, name, now_s))
    async with site(LOST) as here:
        guesses = [
            asyncio.create_task(here.post("/login", {"token": f"a-wrong-token-{number:08}"}))
            for number in range(40)
        ]
        for guess in asyncio.as_completed(guesses):
            if (await guess).status == 429:
                break
        refused = await here.post("/login", {"token": OPERATOR})
        statuses = Counter([(await guess).status for guess in guesses])
        now_s += 0.3
        cookie = await here.log_in(OPERATOR)
        page = await here.get("/", cookie)

    assert refused.status == 429
    assert "Set-Cookie" not in refused.headers
    assert page.status == 200, "an interval after the guesses have ended"
    assert set(statuses) == {403, 429}
    assert statuses[403] <= BURST + 0.5 / 0.3 + 2
