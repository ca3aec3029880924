"""Whatever bytes a server sends, however they are cut: a response or a broken exchange, bounded."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from services.worker.adapters.providers.apis.api import HttpResponse
from services.worker.adapters.providers.kept_connection import (
    READ_BYTES,
    BrokenExchangeError,
    KeptConnection,
)
from tests.cost.budget import spent

BODY_BYTES_MAX = 64
NAMES = st.sampled_from([b"content-length", b"transfer-encoding", b"connection", b"x", b"upgrade"])
VALUES = st.sampled_from(
    [b"chunked", b"close", b"0", b"5", b"-1", b"999999999999999999999", b"\xff"]
)
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=4)
STATUSES = st.sampled_from([b"100", b"101", b"103", b"200", b"204", b"304", b"429", b"999", b"x"])
CHUNKS = st.sampled_from(
    [b"5\r\nhello\r\n", b"0\r\n\r\n", b"5;x\r\nhello\r\n", b"ffffffffffffffff\r\n"]
)
PIECES = st.one_of(
    st.builds(
        lambda status, headers: b"".join(
            [b"HTTP/1.1 " + status + b" Y\r\n", *(b"%b: %b\r\n" % one for one in headers), b"\r\n"]
        ),
        STATUSES,
        HEADERS,
    ),
    CHUNKS,
    st.binary(max_size=90),
)
STREAMS = st.lists(PIECES, min_size=1, max_size=6)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


async def read(pieces: Sequence[bytes], body_bytes_max: int) -> HttpResponse | None:
    """What a connection makes of these bytes and their end; None for a broken exchange."""
    connection = KeptConnection(body_bytes_max, memoryview(b""))
    connection.connection_made(mock.create_autospec(asyncio.Transport, instance=True))
    answer = connection.send(b"")
    for piece in pieces:
        connection.take(piece)
    connection.connection_lost(None)
    try:
        return await asyncio.wait_for(answer, 1.0)
    except BrokenExchangeError:
        return None


@given(STREAMS, st.lists(st.integers(0, 1_000), max_size=6))
def test_no_bytes_are_an_exception_and_no_body_is_larger_than_it_may_be(
    stream: Sequence[bytes], places: Sequence[int]
) -> None:
    found = asyncio.run(read(cut(b"".join(stream), places), BODY_BYTES_MAX))

    assert found is None or len(found.body) <= BODY_BYTES_MAX


@given(st.binary(max_size=50), st.integers(0, 9), st.lists(st.integers(0, 200), max_size=9))
def test_a_response_is_the_same_however_its_bytes_are_cut(
    body: bytes, chunk: int, places: Sequence[int]
) -> None:
    framing, framed = b"content-length: %d" % len(body), body
    if chunk:
        framing = b"Transfer-Encoding: chunked"
        parts = [body[at : at + chunk] for at in range(0, len(body), chunk)]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    whole = b"HTTP/1.1 200 OK\r\nX-Request-Id: r-1\r\n" + framing + b"\r\n\r\n" + framed

    found = asyncio.run(read(cut(whole, places), BODY_BYTES_MAX))

    assert found is not None
    assert (found.status, found.body) == (200, body)
    assert found.headers["x-request-id"] == "r-1"


async def test_what_is_read_at_once_holds_no_event_loop_for_long() -> None:
    """A chunk takes as long as a hundred bytes, and may be one of them."""
    connection = KeptConnection(1_000_000, memoryview(bytearray(READ_BYTES)))
    connection.connection_made(mock.create_autospec(asyncio.Transport, instance=True))
    connection.send(b"")
    connection.take(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    buffer = connection.get_buffer(-1)
    chunks = b"1\r\na\r\n" * (len(buffer) // 6)
    buffer[: len(chunks)] = chunks

    assert spent(lambda: connection.buffer_updated(len(chunks))).is_below(0.01)
