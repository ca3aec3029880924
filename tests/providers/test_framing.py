"""Where a response ends: by its length, its chunks or its connection, and within its limits."""

import json

import pytest

from services.worker.adapters.providers.kept_connection import HEAD_BYTES_MAX
from services.worker.core.attempt.reply import Unavailable
from tests.providers.apis import EACH
from tests.providers.calls import LIMIT_S, PROMPT, Api
from tests.providers.misbehaving import Close, Script, Send, answer, head, misbehaving

CHUNKED: dict[str, str | bytes] = {"transfer-encoding": "chunked"}
LARGE = b"x" * (HEAD_BYTES_MAX + 1)
LAST = b"0\r\n"
END = b"\r\n"


def chunks(data: bytes, size: int, extension: bytes = b"") -> bytes:
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(b"%x%b\r\n%b\r\n" % (len(one), extension, one) for one in pieces)


def good(api: Api) -> bytes:
    return json.dumps(api.good).encode()


@EACH
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_a_body_may_come_in_chunks(api: Api, size: int) -> None:
    said = head(headers={**api.good_headers, **CHUNKED}, length=None)
    trailer = b"x-request-id: another\r\n"
    whole = Send(said + chunks(good(api), size) + LAST + trailer + END)
    async with misbehaving([whole]) as server, api.at(server.base_url) as provider:
        replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(2)]

    assert replies == [api.good_reply] * 2
    assert server.connections == 1


@EACH
async def test_a_body_without_a_length_ends_with_its_connection(api: Api) -> None:
    script: Script = [Send(head(headers=api.good_headers, length=None) + good(api)), Close()]

    reply, _ = await api.ask(script)

    assert reply == api.good_reply


@EACH
async def test_what_comes_before_a_response_is_not_the_response(api: Api) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nx-request-id: other\r\n\r\n"
    script: Script = [Send(b"HTTP/1.1 100 Continue\r\n\r\n" + hints), *api.whole]

    reply, _ = await api.ask(script)

    assert reply == api.good_reply


BROKEN = {
    "a head without an end": Send(b"HTTP/1.1 200 Y\r\n" + LARGE),
    "a header without an end": Send(b"HTTP/1.1 200 Y\r\nx: " + LARGE),
    "many headers": Send(head(headers={f"x{n}": "y" * 20 for n in range(3_000)}, length=0)),
    "a length and chunks": Send(head(headers=CHUNKED, length=2) + chunks(b"{}", 2) + LAST + END),
    "two lengths": Send(head(headers={"Content-Length": "3"}, length=2) + b"{}x"),
    "a negative length": Send(head(length=-1) + b"{}"),
    "an endless trailer": Send(head(headers=CHUNKED, length=None) + LAST + b"x: " + LARGE),
    "an endless extension": Send(head(headers=CHUNKED, length=None) + b"2;x=" + LARGE),
    "endless interim responses": Send(b"HTTP/1.1 102 Processing\r\n\r\n" * 5_000),
    "a folded header": Send(b"HTTP/1.1 200 Y\r\na: b\r\n c\r\ncontent-length: 2\r\n\r\n{}"),
    "HTTP/0.9": Send(b"{}"),
    "HTTP/2": Send(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00"),
}


@EACH
@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
async def test_what_is_framed_wrongly_is_no_answer(api: Api, sent: Send) -> None:
    reply, server = await api.ask([sent, Close()])

    assert reply in (Unavailable(None, ran=True), Unavailable(200, ran=True))
    assert len(server.seen) == 1


@EACH
async def test_a_head_is_read_in_any_case_and_its_first_word_counts(api: Api) -> None:
    headers = {name.title(): value for name, value in api.good_headers.items()}
    both = head(headers=headers, length=len(good(api)))[:-2]
    repeated = b"".join(b"%b: another\r\n" % name.encode() for name in api.good_headers)

    reply, _ = await api.ask([Send(both + repeated + END + good(api))])

    assert reply == api.good_reply


@EACH
async def test_a_status_without_a_body_leaves_the_connection_open(api: Api) -> None:
    empty = Send(b"HTTP/1.1 204 No\r\n\r\n")
    async with (
        misbehaving([empty, *api.whole]) as server,
        api.at(server.base_url) as provider,
    ):
        first = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert first == Unavailable(204, ran=True)
    assert server.connections == 1


@EACH
async def test_an_answer_of_more_than_a_megabyte_is_read_whole(api: Api) -> None:
    spaces = b" " * 1_500_000
    whole = answer(spaces + good(api), headers=api.good_headers)
    async with misbehaving(whole) as server, api.at(server.base_url) as provider:
        replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(2)]

    assert replies == [api.good_reply] * 2
    assert server.connections == 1
