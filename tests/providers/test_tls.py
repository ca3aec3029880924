"""Whom TLS trusts: the authorities of the operating system, or of the file that it names."""

import ssl
from pathlib import Path

import pytest

from services.worker.core.attempt.reply import Reply, Unavailable
from tests.integration.certificates import Authority
from tests.providers.apis import APIS
from tests.providers.calls import LIMIT_S, PROMPT, Api
from tests.providers.misbehaving import Misbehaving, misbehaving

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


async def asked(
    api: Api, authority: Authority, host: str = "127.0.0.1"
) -> tuple[Reply, Misbehaving]:
    """A call to a server whose certificate is for `host`."""
    signed = authority.signs("server", host=host)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed.certificate, signed.key)
    async with (
        misbehaving(api.whole, tls=context) as server,
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
