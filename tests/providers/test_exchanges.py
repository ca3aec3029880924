"""Broken exchanges: each adapter makes one Reply of each, and it says whether the call ran."""

import asyncio
import gzip
import json
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

import pytest

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.core.attempt.reply import (
    Answered,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Unavailable,
)
from tests.providers.apis import APIS, EACH, WITH_CLOUDS
from tests.providers.calls import LIMIT_S, PROMPT, SECRET, SHORT_S, Api
from tests.providers.misbehaving import (
    HEAD_BYTES_MAX,
    Close,
    Drip,
    Hang,
    Reset,
    Script,
    Send,
    When,
    answer,
    head,
    misbehaving,
)

UNREAD_CHARS = 8_000_000  # more than the buffers of both sockets
HASTY = ExchangeLimits(connect_timeout_s=SHORT_S)
RAN = Unavailable(None, ran=True)
NO_ANSWER = Unavailable(200, ran=True)
CHUNKED: dict[str, str | bytes] = {"transfer-encoding": "chunked"}
BROKEN: dict[str, tuple[Script, Reply]] = {
    "html with 200": (answer(b"<html>", headers={"content-type": "text/html"}), NO_ANSWER),
    "empty": (answer(b""), NO_ANSWER),
    "no content": ([Send(b"HTTP/1.1 204 No\r\n\r\n")], Unavailable(204, ran=True)),
    "not utf-8": (answer(b'{"choices":[{"message":{"content":"\xff"}}]}'), NO_ANSWER),
    "silence": ([Hang()], TimedOut(SHORT_S)),
    "silence after the headers": ([Send(head(length=9)), Hang()], TimedOut(SHORT_S)),
    "a drip of the head": ([Drip(head(length=9), every_s=0.01)], TimedOut(SHORT_S)),
    "a drip of the body": (
        [Send(head(length=900)), Drip(b"x" * 900, every_s=0.01)], TimedOut(SHORT_S)
    ),
    "reset after the request": ([Reset()], RAN),
    "closed after the request": ([Close()], RAN),
    "closed in the head": ([Send(b"HTTP/1.1 200 O"), Close()], RAN),
    "closed in the body": ([Send(head(length=9) + b"{"), Close()], RAN),
    "reset in the body": ([Send(head(length=9) + b"{"), Reset()], RAN),
    "a bad chunk": ([Send(head(headers=CHUNKED, length=None) + b"zz\r\n{}"), Close()], RAN),
    "no last chunk": ([Send(head(headers=CHUNKED, length=None) + b"2\r\n{}\r\n"), Close()], RAN),
    "another protocol": ([Send(b"SSH-2.0-x\r\n\r\n"), Close()], RAN),
    "a huge header": ([Send(head(headers={"x": "y" * 70_000}, length=2) + b"{}")], RAN),
    "a switch of protocols": (
        [Send(b"HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n")],
        Unavailable(101, ran=True),
    ),
    "endless continues": (
        [Drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 99, every_s=0.001)], TimedOut(SHORT_S)
    ),
}  # fmt: skip


@pytest.mark.parametrize("api", WITH_CLOUDS, ids=lambda api: api.name)
@pytest.mark.parametrize(("script", "expected"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_exchange_is_one_call_that_may_have_run(
    api: Api, script: Script, expected: Reply
) -> None:
    waits = isinstance(expected, TimedOut)

    reply, server = await api.ask(script, timeout_s=SHORT_S if waits else LIMIT_S)

    assert reply == expected
    assert len(server.seen) == 1


@EACH
async def test_a_cancelled_call_is_abandoned(api: Api) -> None:
    async with misbehaving([Hang()]) as server, api.at(server.base_url) as provider:
        call = asyncio.create_task(provider.ask(PROMPT, timeout_s=LIMIT_S))
        await server.requests(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(LIMIT_S):
            await server.left.wait()

    assert len(server.seen) == 1


async def never_connected(api: Api, base_url: str) -> None:
    async with api.at(base_url) as provider:
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert reply == Unavailable(None, ran=False)


@EACH
async def test_a_refused_call_did_not_run(api: Api) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        await never_connected(api, f"http://127.0.0.1:{taken.getsockname()[1]}/v1")


@EACH
@pytest.mark.parametrize("base_url", ["no url", "ftp://host/v1"])
async def test_a_call_to_no_address_did_not_run(api: Api, base_url: str) -> None:
    await never_connected(api, base_url)


async def test_a_name_that_no_server_answers_for_holds_no_thread_of_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pool has few, and checks of answers and Kafka's connections need it."""
    answers, looked_up = threading.Event(), list[str]()

    def hanging(host: str, *_: object, **__: object) -> None:
        looked_up.append(host)
        answers.wait(LIMIT_S)
        raise socket.gaierror

    with ThreadPoolExecutor(1) as pool:
        asyncio.get_running_loop().set_default_executor(pool)
        async with APIS[0].at("http://models.invalid/v1", limits=HASTY) as provider:
            monkeypatch.setattr(socket, "getaddrinfo", hanging)
            asked = (provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(3))
            replies = await asyncio.gather(*asked)
            async with asyncio.timeout(SHORT_S):
                await asyncio.to_thread(int)
        answers.set()

    assert replies == [Unavailable(None, ran=False)] * 3
    assert looked_up == ["models.invalid"]


@EACH
async def test_a_call_that_could_not_connect_in_time_did_not_run(
    api: Api,
) -> None:
    """A TLS handshake that nobody answers is still connecting."""
    async with (
        misbehaving([Hang()]) as server,
        api.at(server.base_url.replace("http", "https"), limits=HASTY) as provider,
    ):
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert reply == Unavailable(None, ran=False)
    assert server.seen == []


@EACH
async def test_a_call_that_got_no_connection_of_the_pool_did_not_run(
    api: Api,
) -> None:
    async with (
        misbehaving([Hang()]) as server,
        api.at(server.base_url, max_in_flight=1, limits=HASTY) as provider,
    ):
        first = asyncio.create_task(provider.ask(PROMPT, timeout_s=2 * SHORT_S + 0.1))
        await server.requests(1)
        second = await provider.ask(PROMPT, timeout_s=LIMIT_S)
        await first

    assert second == Unavailable(None, ran=False)
    assert len(server.seen) == 1


@EACH
async def test_a_call_is_not_sent_after_its_permit(api: Api) -> None:
    """It had waited for a connection of the pool."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    async with (
        misbehaving([When(told), *api.whole], api.whole) as server,
        api.at(server.base_url, max_in_flight=1) as provider,
    ):
        first = asyncio.create_task(provider.ask(PROMPT, timeout_s=LIMIT_S))
        await server.requests(1)
        begins_by = loop.time() + SHORT_S
        loop.call_at(begins_by, told.set)
        second = await provider.ask(replace(PROMPT, begins_by=begins_by), timeout_s=LIMIT_S)

        assert await first == api.good_reply
        third = await provider.ask(PROMPT, timeout_s=LIMIT_S)
    assert second == Unavailable(None, ran=False)
    assert third == api.good_reply
    assert [seen.connection for seen in server.seen] == [1, 1]


async def test_a_request_answered_before_it_was_sent_is_not_ahead_of_the_next() -> None:
    """A server that refuses one by its head may read no more of it."""
    api, connections = APIS[0], list[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        if len(connections) == 1:
            cast("asyncio.Transport", writer.transport).pause_reading()
            writer.write(head(400, length=2) + b"{}")
        else:
            writer.write(api.whole[0].data)

    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX) as server:
        port = server.sockets[0].getsockname()[1]
        async with api.at(f"http://127.0.0.1:{port}/v1") as provider:
            large = replace(PROMPT, system="x" * UNREAD_CHARS)
            refused = await provider.ask(large, timeout_s=LIMIT_S)
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)
        for writer in connections:
            writer.transport.abort()

    assert refused == Rejected("request", 400, None)
    assert (reply, len(connections)) == (api.good_reply, 2)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage()),
        ({"prompt_tokens": 0}, Usage()),
        ({"prompt_tokens": 9, "completion_tokens": 0}, Usage()),  # there is an answer
        ({"prompt_tokens": 0, "completion_tokens": 3}, Usage(input_tokens=0, output_tokens=3)),
    ],
)
async def test_a_server_that_counts_no_tokens_has_reported_none(
    usage: dict[str, int], expected: Usage
) -> None:
    api = APIS[0]
    reply, _ = await api.ask(answer({**api.good, "usage": usage}))

    assert isinstance(reply, Answered)
    assert reply.facts.usage == expected


@EACH
async def test_a_packed_body_is_not_unpacked(api: Api) -> None:
    packed = gzip.compress(json.dumps(api.good).encode())

    reply, server = await api.ask(answer(packed, headers={"content-encoding": "gzip"}))

    assert reply == NO_ANSWER
    assert server.seen[0].headers["accept-encoding"] == "identity"


@EACH
@pytest.mark.parametrize(("status", "expected"), [(200, NO_ANSWER), (429, Throttled(3.0))])
async def test_megabytes_are_not_read_to_the_end(api: Api, status: int, expected: Reply) -> None:
    limits = ExchangeLimits(response_bytes_max=1_000_000)
    text = json.dumps(api.good).replace('"{}"', '"' + "x" * 30_000_000 + '"')

    reply, server = await api.ask(
        answer(text.encode(), status, {"retry-after": "3"}), limits=limits
    )

    assert reply == expected
    assert server.bytes_sent < 20_000_000


@EACH
@pytest.mark.parametrize("coding", ["gzip", "utf-8", "identity, gzip", ""])
async def test_a_body_that_is_said_to_be_packed_and_is_not_is_read(api: Api, coding: str) -> None:
    headers = {**api.good_headers, "content-encoding": coding}

    reply, _ = await api.ask(answer(api.good, headers=headers))

    assert reply == api.good_reply


@EACH
async def test_a_bug_is_a_reply_and_a_log_entry_without_texts(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    unsendable = replace(PROMPT, system="private system \ud800")

    with caplog.at_level(logging.DEBUG, logger="services"):
        reply, server = await api.ask(api.whole, prompt=unsendable)

    assert reply == RAN
    assert server.seen == []
    assert "a bug: PydanticSerializationError in a call" in caplog.text
    assert "in exchange" in caplog.text
    assert "private system" not in caplog.text
    assert SECRET not in caplog.text


@EACH
async def test_a_cookie_of_a_server_is_not_sent_in_the_next_call(api: Api) -> None:
    cookie = answer(api.good, headers={**api.good_headers, "set-cookie": "seen=1; Path=/"})
    async with misbehaving(cookie) as server:
        url = server.base_url.replace("127.0.0.1", "localhost")  # no address has cookies
        async with api.at(url) as provider:
            replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(2)]

    assert replies == [api.good_reply] * 2
    assert [seen.headers.get("cookie") for seen in server.seen] == [None, None]
