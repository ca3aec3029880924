"""Malformed requests, sent byte by byte: each is answered with a 4xx, before login and after."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest

from services.console import form
from services.console.access import login_throttle
from services.console.application import application
from services.console.guard import COOKIE
from services.http.server import HttpServer
from tests.unit.console.context import OPERATOR, Site, site

pytestmark = pytest.mark.wide  # many cases, each of them long

ANSWER_S = 10.0
FUZZED, FUZZED_S = 300, 0.2  # what was cut is waited for
FORM = "application/x-www-form-urlencoded"
BODY = urlencode({"token": "wrong", "csrf": "x", "new-reason": "y", "id": "z"}).encode()
POSTS = ("/login", "/logout", "/letters/plan", "/letters/jobs")
GETS = ("/", "/login", "/letters", "/letters/list", "/letters/one", "/workflow", "/tail", "/topics")
TYPES = (
    *(f"{FORM}; charset={name}" for name in ("klingon", "utf-7", "utf-16", "idna", "hex", '"', "")),
    *("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=x"),
    *("text/plain", "application/json", "", "/", ";;;", "\xff", f"{FORM}; charset=" + "x" * 4_000),
)
BODIES = (
    *(b"", b"%", b"%zz=%", b"token=%ff", b"\xff\xfe\x00", b"token=\xed\xa0\x80", b"=&=&;;&" * 50),
    *(
        b"a&" * 30_000,
        b"csrf=" + b"x" * 100_000,
        b"--x\r\n\r\n--x--",
        b'{"token": 1}',
        b"\x1f\x8b\x08\x00",
    ),
)
ENCODINGS = ("gzip", "deflate", "br", "zstd", "klingon")


@dataclass(frozen=True)
class Wire:
    """A console, and a way to send it bytes."""

    here: Site
    port: int
    headers: bytes  # of a browser on one of its pages

    def request(self, method: str, path: str, *more: bytes, body: bytes = b"") -> bytes:
        lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), self.headers, *more]
        if body and not any(line.lower().startswith(b"transfer-encoding") for line in more):
            lines.append(f"Content-Length: {len(body)}".encode())
        return b"\r\n".join([*lines, b"Connection: close", b"", body])

    async def send(self, raw: bytes, patience_s: float = ANSWER_S) -> tuple[int | None, bytes]:
        """The status and all that came; None where it hung up, or waits for more."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        reported = b""
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(patience_s):
                writer.write(raw)
                while piece := await reader.read(65_536):
                    reported += piece
        writer.close()
        return (int(reported.split()[1]) if reported.startswith(b"HTTP/1.") else None), reported


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_throttle, "INTERVAL_S", 0.0)
    monkeypatch.setattr(login_throttle, "STRANGERS_INTERVAL_S", 0.0)


@asynccontextmanager
async def wire(*, logged_in: bool) -> AsyncIterator[Wire]:
    """Served as `answerbus console` serves it."""
    async with site() as here:
        cookie = await here.log_in(OPERATOR) if logged_in else ""
        server = HttpServer(application(here.context))
        address = await server.start(("127.0.0.1", 0))
        port = int(address.rpartition(":")[2])
        own = here.url.removeprefix("http://")  # the names that the guard knows
        headers = f"Host: {own}\r\nOrigin: {here.url}\r\nCookie: {COOKIE}={cookie}".encode()
        try:
            yield Wire(here, port, headers)
        finally:
            await server.stop()


def malformed_posts(at: Wire) -> Iterable[bytes]:
    for path in POSTS:
        for kind in TYPES:
            yield at.request("POST", path, f"Content-Type: {kind}".encode("latin-1"), body=BODY)
        for body in BODIES:
            yield at.request("POST", path, f"Content-Type: {FORM}".encode(), body=body)
        for encoding in ENCODINGS:
            packed = (f"Content-Type: {FORM}".encode(), f"Content-Encoding: {encoding}".encode())
            yield at.request("POST", path, *packed, body=b"not packed")
        chunks = (f"Content-Type: {FORM}".encode(), b"Transfer-Encoding: chunked")
        for body in (
            b"zz\r\nx\r\n",
            b"-1\r\n\r\n0\r\n\r\n",
            b"1\r\nxyz",
        ):
            yield at.request("POST", path, *chunks, body=body)


ODD_GETS = (
    *("/%ff", "/%00", "/%", "//", "/../../etc/passwd", "/static/%2e%2e/main.py", "/" + "x" * 9_000),
    *("/static/" + "a" * 256, "/static/" + "a/" * 3_000),
    *("/letters/one?id=%ff%00", "/workflow?id=%ed%a0%80", "/tail?workflow=%00&kind=%ff", "*", "?"),
    *("/letters/list?page=%d9%a1&label%3Ax=%ff", "/?minutes=1e9", "/letters?by=label%3A%ff"),
    *("/letters/jobs/0", "/letters/jobs/99999999999", "http://[::1", "/login?token=%ed%a0%80"),
    *("/letters?label=%00", "/letters/one?id=" + "%f0%9f" * 500, "/\xff\xfe", "/a b"),
)


@pytest.mark.parametrize("logged_in", [False, True], ids=["stranger", "operator"])
async def test_malformed_forms_are_4xx(*, logged_in: bool) -> None:
    async with wire(logged_in=logged_in) as at:
        for raw in malformed_posts(at):
            status, reported = await at.send(raw)

            assert status in range(400, 500), (raw[:400], reported[:400])


@pytest.mark.parametrize("logged_in", [False, True], ids=["stranger", "operator"])
@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "PUT", "DELETE", "TRACE", "OPTIONS", "FOO", "get"]
)
async def test_malformed_addresses_and_methods_are_client_errors(
    method: str, *, logged_in: bool
) -> None:
    async with wire(logged_in=logged_in) as at:
        for path in (*GETS, *POSTS, *ODD_GETS):
            status, reported = await at.send(at.request(method, path))

            assert status in range(200, 500), (path, reported[:400])
            assert status != 200 or method in ("GET", "HEAD")


@pytest.mark.long
async def test_a_form_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "BODY_S_MAX", 0.1)
    async with wire(logged_in=False) as at:
        whole = at.request("POST", "/login", f"Content-Type: {FORM}".encode(), body=BODY)

        assert (await at.send(whole[:-5], 2.0))[0] == 408


async def test_what_was_wrong_with_a_form_is_said() -> None:
    async with wire(logged_in=False) as at:
        for kind in (f"{FORM}; charset=klingon", "multipart/form-data"):
            header = f"Content-Type: {kind}".encode()
            status, reported = await at.send(at.request("POST", "/login", header, body=BODY))

            assert (status, f"A form is sent here as {FORM}".encode() in reported) == (400, True)
        for end in (b"%", b"%4", b"%g1", b"%4\xc3\xa4"):
            header = f"Content-Type: {FORM}".encode()
            status, reported = await at.send(at.request("POST", "/login", header, body=BODY + end))

            assert (status, b"without two hexadecimal digits" in reported) == (400, True)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /secret-in-the-address\x00 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /login HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /login HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nCookie: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\xff\xfe: 1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_4xx_without_name_and_echo(raw: bytes) -> None:
    async with wire(logged_in=False) as at:
        status, reported = await at.send(raw)

    assert status is None or status in range(400, 500), reported
    assert b"Server:" not in reported
    assert b"secret-in-the-address" not in reported
    assert b"aiohttp" not in reported.lower()


@pytest.mark.parametrize("logged_in", [False, True], ids=["stranger", "operator"])
async def test_requests_mutated_at_random_are_never_an_error_of_ours(*, logged_in: bool) -> None:
    chance = random.Random(20261122)
    async with wire(logged_in=logged_in) as at:
        header = f"Content-Type: {FORM}".encode()
        whole = [at.request("POST", path, header, body=BODY) for path in POSTS]
        whole += [at.request("GET", path) for path in (*GETS, *ODD_GETS)]
        for _ in range(FUZZED):
            raw = mutated(chance.choice(whole), chance)
            status, reported = await at.send(raw, FUZZED_S)

            assert status is None or status < 500, (raw, reported[:400])
            assert b"Server:" not in reported


def mutated(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 20)]
            case 2:
                data[at:at] = chance.randbytes(chance.randint(1, 20))
            case _:
                data[at:at] = data[: chance.randint(1, 40)]
        if not data:
            return raw
    return bytes(data)
