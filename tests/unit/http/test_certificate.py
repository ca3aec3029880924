"""TLS of our servers: a certificate is read again when its files change, if it can be used."""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509

from services.http.certificate import ServerCertificate, UnusableCertificate
from services.http.server import HttpServer
from tests.integration.certificates import Authority, Signed


@asynccontextmanager
async def served(files: Signed) -> AsyncIterator[int]:
    """The port at which something answers with that certificate."""
    app = web.Application()
    app.router.add_get("/", _hello)
    server = HttpServer(app)
    certificate = ServerCertificate(files.certificate, files.key)
    address = await server.start(("127.0.0.1", 0), certificate)
    assert address.startswith("https://127.0.0.1:")
    yield int(address.rpartition(":")[2])
    await server.stop()


async def _hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


async def shown(port: int, authority: Authority, name: str | None = None) -> str:
    """Whose certificate a browser is shown that trusts the authority, and that all of it works."""
    trust = ssl.create_default_context(cafile=authority.file)
    trust.check_hostname = name is None
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=trust, server_hostname=name or "127.0.0.1"
    )
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).endswith(b"hello")
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(found).subject.rfc4514_string()


def put(there: Signed, new: Signed, *, key: bool = True) -> None:
    """As a renewal writes it: each file is replaced whole."""
    for old, source in ((there.certificate, new.certificate), (there.key, new.key)):
        if key or old == there.certificate:
            fresh = old.with_suffix(".new")
            fresh.write_bytes(source.read_bytes())
            os.replace(fresh, old)


async def test_a_certificate_is_read_again_when_its_files_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    authority = Authority(tmp_path, "authority")
    there, second, third = (authority.signs(name) for name in ("first", "second", "third"))
    async with served(there) as port:
        assert await shown(port, authority) == "CN=first"
        assert await shown(port, authority, "console.acme.example") == "CN=first"

        put(there, second)
        assert await shown(port, authority) == "CN=second"

        put(there, third, key=False)  # its key is not yet there
        assert await shown(port, authority) == "CN=second"
        there.key.unlink()
        assert await shown(port, authority) == "CN=second"
        there.key.write_bytes(third.key.read_bytes())
        assert await shown(port, authority) == "CN=third"

        there.certificate.write_text("no certificate")
        assert await shown(port, authority) == "CN=third"
    kept = [
        message
        for message in caplog.messages
        if message.startswith("the certificate stays as it was: ")
    ]
    assert len(kept) == 3, "once for each change"


async def test_nothing_is_answered_without_tls(tmp_path: Path) -> None:
    files = Authority(tmp_path, "authority").signs("one")
    async with served(files) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        reported = b""
        with suppress(ConnectionError):
            reported = await reader.read()
        writer.close()

        assert b"hello" not in reported


def test_files_that_are_no_certificate_with_its_key_are_refused_at_the_start(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path, "authority")
    one, other = authority.signs("one"), authority.signs("other")
    locked = authority.signs("locked", password="secret")
    for certificate, key, why in (
        (one.certificate, other.key, "KEY_VALUES_MISMATCH"),
        (tmp_path / "none.crt", one.key, "No such file"),
        (one.certificate, None, "cannot be used"),
        (locked.certificate, locked.key, "its key is encrypted"),
    ):
        with pytest.raises(UnusableCertificate, match=why):
            ServerCertificate(certificate, key)
    assert ServerCertificate(one.both, None)
