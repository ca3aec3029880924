"""The proxies that the environment names are used for every API, except for hosts it exempts."""

import base64

import pytest

from services.worker.adapters.providers.exchange import proxy_for
from services.worker.core.attempt.reply import Unavailable
from tests.providers.apis import APIS
from tests.providers.calls import LIMIT_S, PROMPT, Api
from tests.providers.misbehaving import Close, Script, Send, misbehaving

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
ELSEWHERE = "http://models.invalid/v1"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without proxies."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@EACH
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_call_goes_through_the_proxy_of_the_environment(
    api: Api, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with misbehaving(api.whole) as proxy:
        at = proxy.base_url.removesuffix("/v1").replace("://", "://user:word@")
        monkeypatch.setenv(variable, at)
        async with api.at(ELSEWHERE) as provider:
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    (seen,) = proxy.seen
    password = base64.b64encode(b"user:word").decode()
    assert reply == api.good_reply
    assert seen.path == f"http://models.invalid{api.path}"
    assert seen.headers["proxy-authorization"] == f"Basic {password}"


@EACH
async def test_a_host_without_proxy_is_asked_itself(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "elsewhere.invalid, 127.0.0.1")

    reply, server = await api.ask(api.whole)

    assert reply == api.good_reply
    assert len(server.seen) == 1


@EACH
async def test_a_proxy_that_makes_no_tunnel_means_that_no_call_ran(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: Script = [Send(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n"), Close()]
    async with misbehaving(refused) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.base_url.removesuffix("/v1"))
        async with api.at(ELSEWHERE.replace("http", "https")) as provider:
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert reply == Unavailable(None, ran=False)
    assert [(seen.method, seen.path) for seen in proxy.seen] == [("CONNECT", "models.invalid:443")]


@pytest.mark.parametrize(
    ("variables", "url", "expected"),
    [
        ({}, "https://a.invalid/v1", None),
        ({"https_proxy": "http://p:1"}, "http://a.invalid/v1", None),
        (
            {"https_proxy": "http://p:1", "all_proxy": "http://q:1"},
            "https://a.invalid",
            "http://p:1",
        ),
        ({"all_proxy": "p:1"}, "https://a.invalid", "http://p:1"),
        ({"all_proxy": "http://p:1", "no_proxy": "*"}, "https://a.invalid", None),
        ({"all_proxy": "http://p:1", "no_proxy": ".invalid"}, "https://a.invalid:8443/v1", None),
        ({"all_proxy": "http://p:1", "no_proxy": "b.invalid"}, "https://a.invalid", "http://p:1"),
        ({"all_proxy": "http://p:1"}, "no url", "http://p:1"),
    ],
)
def test_a_proxy_is_found_by_scheme_and_host(
    variables: dict[str, str], url: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)

    assert proxy_for(url) == expected
