"""The proxies that the environment names are used for every API, except for hosts it exempts."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from services.worker.adapters.providers.exchange import proxy_for
from services.worker.core.attempt.reply import Unavailable
from services.worker.ports.provider import Unhealthy
from tests.integration.certificates import Authority
from tests.providers.apis import APIS, EACH
from tests.providers.calls import LIMIT_S, PROMPT, Api
from tests.providers.misbehaving import Close, Script, Send, misbehaving
from tests.providers.openai_calls import provider_at

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


async def joined(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65_536):
            sink.write(data)
    sink.close()


ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@asynccontextmanager
async def tunnels(heads: list[bytes], said: bytes = ESTABLISHED) -> AsyncIterator[str]:
    """A proxy that makes a way to whom it is asked for, and keeps what it was asked."""

    serving = set[asyncio.Future[tuple[None, None]]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        host, _, port = heads[-1].split()[1].decode().rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(said)
        both = asyncio.gather(joined(reader, back), joined(there, writer))
        serving.add(both)
        await both

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://user:w%40rd@127.0.0.1:{port}"
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*serving)


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """That of a server whose authority is trusted."""
    authority = Authority(tmp_path, "trusted")
    signed = authority.signs("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed.certificate, signed.key)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    return context


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nproxy-connection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ],
)
async def test_a_tunnel_is_open_whatever_length_its_head_names(
    said: bytes, trusted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = APIS[0]
    async with misbehaving(api.whole, tls=trusted) as server, tunnels([], said) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        async with api.at(server.base_url) as provider:
            assert await provider.ask(PROMPT, timeout_s=LIMIT_S) == api.good_reply


@EACH
async def test_a_call_by_tls_goes_through_a_tunnel(
    api: Api, trusted: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[bytes] = []
    async with misbehaving(api.whole, tls=trusted) as server, tunnels(heads) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        async with api.at(server.base_url) as provider:
            replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(2)]

    assert replies == [api.good_reply] * 2
    assert server.connections == 1
    (head,) = heads  # the second call goes through the same tunnel
    password = base64.b64encode(b"user:w@rd").decode()
    assert f"proxy-authorization: Basic {password}" in head.decode()
    assert all("proxy-authorization" not in seen.headers for seen in server.seen)


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


async def test_a_proxy_that_is_away_is_named_in_place_of_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without its user and password."""
    monkeypatch.setenv("HTTP_PROXY", "http://user:word@127.0.0.1:1")
    async with provider_at(ELSEWHERE) as provider:
        found = await provider.preflight()

    why = (
        f"no connection to {ELSEWHERE} over the proxy http://127.0.0.1:1 of the environment: see "
        "that it runs and lets us through, or correct HTTPS_PROXY and NO_PROXY"
    )
    assert found == Unhealthy(why, connected=False)
