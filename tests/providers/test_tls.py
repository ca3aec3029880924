"""Whom TLS trusts: the authorities of the operating system, or of the file that it names."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from services.worker.core.attempt.reply import Reply, Unavailable
from services.worker.ports.provider import Unhealthy
from tests.integration.certificates import Authority
from tests.providers.apis import EACH, OPENAI
from tests.providers.calls import LIMIT_S, PROMPT, Api
from tests.providers.misbehaving import Misbehaving, answer, misbehaving


def served(authority: Authority, host: str = "127.0.0.1") -> ssl.SSLContext:
    signed = authority.signs("server", host=host)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed.certificate, signed.key)
    return context


async def asked(
    api: Api, authority: Authority, host: str = "127.0.0.1"
) -> tuple[Reply, Misbehaving]:
    """A call to a server whose certificate is for `host`."""
    async with (
        misbehaving(api.whole, tls=served(authority, host)) as server,
        api.at(server.base_url) as provider,
    ):
        return await provider.ask(PROMPT, timeout_s=LIMIT_S), server


@EACH
async def test_a_server_with_a_trusted_certificate_is_asked(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "trusted")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))

    reply, server = await asked(api, authority)

    assert reply == api.good_reply
    assert len(server.seen) == 1


@EACH
@pytest.mark.parametrize(("trusted", "host"), [("other", "127.0.0.1"), ("own", "127.0.0.2")])
async def test_a_server_with_another_certificate_gets_no_request(
    api: Api, trusted: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = (Authority(tmp_path, name) for name in ("own", "other"))
    monkeypatch.setenv("SSL_CERT_FILE", str({"own": own, "other": other}[trusted].file))

    reply, server = await asked(api, own, host)

    assert reply == Unavailable(None, ran=False)
    assert server.seen == []


async def test_the_check_at_start_says_that_a_certificate_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = (Authority(tmp_path, name) for name in ("own", "other"))
    monkeypatch.setenv("SSL_CERT_FILE", str(other.file))
    async with (
        misbehaving(answer({}), tls=served(own)) as server,
        OPENAI.at(server.base_url) as provider,
    ):
        found = await provider.preflight()

    why = (
        f"no connection to {server.base_url}: its certificate is not trusted here (unable to get "
        "local issuer certificate): name the file with its authority in SSL_CERT_FILE, or correct "
        "`base_url`"
    )
    assert found == Unhealthy(why, connected=False)


async def test_the_check_at_start_says_that_a_server_speaks_no_tls() -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with OPENAI.at(url) as provider:
            found = await provider.preflight()

    why = "no TLS is spoken there: correct `base_url` (http or https, port)"
    assert found == Unhealthy(f"no connection to {url}: {why}", connected=False)


async def test_the_check_at_start_says_that_a_name_has_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror

    url = "http://models.invalid/v1"
    async with OPENAI.at(url) as provider:
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        found = await provider.preflight()

    why = "its name has no address here: see to DNS, or correct the name"
    assert found == Unhealthy(f"no connection to {url}: {why}", connected=False)
