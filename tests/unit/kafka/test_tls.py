"""Certificates of Kafka are read again at the next connection, once their files have changed."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from services.kafka.options import connection_options
from services.settings.settings import KafkaSettings
from tests.integration.certificates import Authority

LIMIT_S = 10.0


@asynccontextmanager
async def broker(authority: Authority) -> AsyncIterator[int]:
    """It says whose certificate the client has; gives its port."""
    signed = authority.signs("broker")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(signed.certificate, signed.key)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        subject = x509.load_der_x509_certificate(found).subject
        name = subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        writer.write(str(name).encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def named(port: int, context: ssl.SSLContext) -> str:
    """Who the broker says that we are."""
    async with asyncio.timeout(LIMIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        text = await reader.read()
        writer.close()
    return text.decode()


def settings(folder: Path) -> KafkaSettings:
    return KafkaSettings(
        security_protocol="SSL",
        ssl_cafile=folder / "ca",
        ssl_certfile=folder / "crt",
        ssl_keyfile=folder / "key",
    )


def put(folder: Path, authority: Authority, name: str) -> None:
    signed = authority.signs(name)
    for found, place in ((signed.certificate, "crt"), (signed.key, "key"), (authority.file, "ca")):
        shutil.copy(found, folder / place)


async def test_a_connection_has_the_certificates_that_the_files_hold_by_then(
    tmp_path: Path,
) -> None:
    first, second = (Authority(tmp_path / name, name) for name in ("first", "second"))
    put(tmp_path, first, "before")
    context = connection_options(settings(tmp_path))["ssl_context"]
    async with broker(first) as port:
        assert await named(port, context) == "before"

        (tmp_path / "key").write_bytes(first.signs("unfinished").key.read_bytes())
        assert await named(port, context) == "before"  # whose key is not that of the certificate

        put(tmp_path, first, "after")
        assert await named(port, context) == "after"

    put(tmp_path, second, "of-another-authority")
    async with broker(second) as port:
        assert await named(port, context) == "of-another-authority"


async def test_a_broker_of_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    first, second = (Authority(tmp_path / name, name) for name in ("first", "second"))
    put(tmp_path, first, "ours")
    context = connection_options(settings(tmp_path))["ssl_context"]
    async with broker(second) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await named(port, context)
