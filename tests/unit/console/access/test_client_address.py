"""Whose address a login is counted by, also behind proxies."""

from ipaddress import ip_network

import pytest

from services.console.access import login_throttle
from services.console.access.client_address import HOPS_MAX, client_address
from services.settings.settings import Settings
from tests.unit.console.context import OPERATOR, site

PROXIES = (ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))
BROWSER = "192.0.2.7"


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        (BROWSER, [], BROWSER),
        (BROWSER, ["198.51.100.1"], BROWSER),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [BROWSER], BROWSER),
        ("::ffff:10.0.0.1", [BROWSER], BROWSER),
        ("2001:db8::1", [f"198.51.100.1, {BROWSER}"], BROWSER),
        ("10.0.0.1", ["198.51.100.1", f"{BROWSER},10.0.0.2"], BROWSER),
        ("10.0.0.1", [f"10.0.0.9, {BROWSER}"], BROWSER),
        ("10.0.0.1", ["unknown"], None),
        ("10.0.0.1", [BROWSER, "\x1b[2J"], None),
        (None, [BROWSER], None),
    ],
)
def test_what_a_stranger_writes_is_not_read(
    peer: str | None, forwarded: list[str], expected: str | None
) -> None:
    assert client_address(peer, forwarded, PROXIES) == expected


def test_a_long_chain_is_not_read_to_its_end() -> None:
    chain = ",".join([BROWSER, *["10.0.0.2"] * HOPS_MAX])

    assert client_address("10.0.0.1", [chain], PROXIES) == "10.0.0.2"


@pytest.mark.parametrize(("proxies", "expected"), [(["127.0.0.0/8"], 303), ([], 429)])
async def test_one_who_guesses_behind_a_proxy_keeps_nobody_else_out(
    proxies: list[str], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_throttle, "BURST", 1)
    monkeypatch.setattr(login_throttle, "WAIT_S_MAX", 0.1)
    settings = Settings.model_validate({"console": {"proxies": proxies}})
    guesser, browser = ({"X-Forwarded-For": address} for address in ("192.0.2.66", BROWSER))

    async with site(settings=settings) as here:
        guesses = [await here.post("/login", {"token": "x"}, **guesser) for _ in range(2)]
        response = await here.post("/login", {"token": OPERATOR}, **browser)

    assert [guess.status for guess in guesses] == [403, 429]
    assert response.status == expected
