"""What a broker shows of itself and is not believed: told in one sentence, with exit code 3.

A server of TLS stands in for the broker: the handshake is all that there is of it.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from answerbus.client import BusRefused, Client
from tests.integration.bus import Bus
from tests.integration.certificates import ENDS, Authority, Signed
from tests.integration.test_connection_check import refused, said

pytestmark = pytest.mark.kafka

ENDED = datetime(2021, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def showing(certificate: Signed) -> AsyncIterator[str]:
    """A server that shows it to those who come."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("of_authority", "of_broker"),
    [(ENDS, ENDED), (ENDED, ENDS)],
    ids=["certificate", "authority"],
)
async def test_a_certificate_of_the_broker_that_has_expired_is_reported(
    tmp_path: Path, of_authority: datetime, of_broker: datetime
) -> None:
    authority = Authority(tmp_path / "certificates", "ours", ends=of_authority)
    async with showing(authority.signs("broker", ends=of_broker)) as at:
        kafka = {"security_protocol": "SSL", "ssl_cafile": str(authority.file)}
        reported = await said(Bus(at, "expired", 1, tmp_path, kafka=kafka), "worker")

    assert reported == refused(
        at,
        "the broker's certificate, or that of the authority that signed it, is not valid today "
        "(certificate has expired)",
        "renew the one that has expired (that of an authority also in `kafka.ssl_cafile`), or "
        "correct the clock of this machine",
    )


async def test_a_certificate_that_strict_pythons_refuse_is_reported_as_that(tmp_path: Path) -> None:
    """Since 3.13, Python asks for extensions that tools for certificates may leave out."""
    authority = Authority(tmp_path / "certificates", "ours", is_careless=True)
    context = ssl.create_default_context(cafile=authority.file)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    async with showing(authority.signs("broker")) as at:
        with pytest.raises(BusRefused) as raised:
            async with Client(at, security_protocol="SSL", ssl_context=context):
                pass

    assert str(raised.value) == refused(
        at,
        "the broker's certificate, or that of the authority that signed it, lacks what RFC 5280 "
        "asks for (Missing Authority Key Identifier)",
        "issue it again with that: Python 3.13 and newer refuse it",
    )
