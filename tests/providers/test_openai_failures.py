"""Broken connections and the SDK's exceptions: each is one Reply that says whether the call ran."""

import asyncio
import gzip
import json
import logging
import socket

import aiohttp
import httpx2
import openai
import pytest

from services.worker.core.reply import Rejected, Reply, Throttled, TimedOut, Unavailable
from services.worker.providers import openai as adapter
from tests.providers.misbehaving import (
    Close,
    Drip,
    Hang,
    Reset,
    Script,
    Send,
    answer,
    head,
    misbehaving,
)
from tests.providers.openai_calls import (
    GOOD,
    GOOD_REPLY,
    LIMIT_S,
    PROMPT,
    SECRET,
    WHOLE,
    ask,
    provider_at,
)

SHORT_S = 0.2
RAN = Unavailable(None, ran=True)
NO_ANSWER = Unavailable(200, ran=True)
CHUNKED: dict[str, str | bytes] = {"transfer-encoding": "chunked"}
PACKED = gzip.compress(json.dumps(GOOD).encode())
BROKEN: dict[str, tuple[Script, Reply]] = {
    "html with 200": (answer(b"<html>", headers={"content-type": "text/html"}), NO_ANSWER),
    "empty": (answer(b""), NO_ANSWER),
    "no content": ([Send(b"HTTP/1.1 204 No\r\n\r\n")], Unavailable(204, ran=True)),
    "not utf-8": (answer(b'{"choices":[{"message":{"content":"\xff"}}]}'), NO_ANSWER),
    "packed": (answer(PACKED, headers={"content-encoding": "gzip"}), NO_ANSWER),
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


@pytest.mark.parametrize(("script", "expected"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_exchange_is_one_call_that_may_have_run(
    script: Script, expected: Reply
) -> None:
    waits = isinstance(expected, TimedOut)

    reply, server = await ask(script, timeout_s=SHORT_S if waits else LIMIT_S)

    assert reply == expected
    assert len(server.seen) == 1


async def test_a_connection_that_is_closed_while_kept_alive_is_no_second_call() -> None:
    async with misbehaving(WHOLE, [Close()]) as server, provider_at(server.base_url) as provider:
        replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(2)]

    assert replies == [GOOD_REPLY, RAN]
    assert [seen.connection for seen in server.seen] == [1, 1]


async def test_a_connection_that_the_server_ends_is_not_used_again() -> None:
    last = answer(GOOD, headers={"x-request-id": "req_1", "connection": "close"})
    async with misbehaving([*last, Close()]) as server, provider_at(server.base_url) as provider:
        replies = [await provider.ask(PROMPT, timeout_s=LIMIT_S) for _ in range(3)]

    assert replies == [GOOD_REPLY] * 3
    assert [seen.connection for seen in server.seen] == [1, 2, 3]


async def test_a_cancelled_call_is_abandoned() -> None:
    async with misbehaving([Hang()]) as server, provider_at(server.base_url) as provider:
        call = asyncio.create_task(provider.ask(PROMPT, timeout_s=LIMIT_S))
        await server.requests(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(LIMIT_S):
            await server.left.wait()

    assert len(server.seen) == 1


async def never_connected(base_url: str) -> None:
    async with provider_at(base_url) as provider:
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert reply == Unavailable(None, ran=False)


async def test_a_refused_call_did_not_run() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        await never_connected(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")


@pytest.mark.parametrize("base_url", ["no url", "ftp://host/v1"])
async def test_a_call_to_no_address_did_not_run(base_url: str) -> None:
    await never_connected(base_url)


async def test_a_call_that_could_not_connect_in_time_did_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A TLS handshake that nobody answers is still connecting."""
    monkeypatch.setattr(adapter, "CONNECT_TIMEOUT_S", SHORT_S)
    async with (
        misbehaving([Hang()]) as server,
        provider_at(server.base_url.replace("http", "https")) as provider,
    ):
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert reply == Unavailable(None, ran=False)
    assert server.seen == []


async def test_a_call_that_got_no_connection_of_the_pool_did_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter, "CONNECT_TIMEOUT_S", SHORT_S)
    async with (
        misbehaving([Hang()]) as server,
        provider_at(server.base_url, max_in_flight=1) as provider,
    ):
        first = asyncio.create_task(provider.ask(PROMPT, timeout_s=2 * SHORT_S + 0.1))
        await server.requests(1)
        second = await provider.ask(PROMPT, timeout_s=LIMIT_S)
        await first

    assert second == Unavailable(None, ran=False)
    assert len(server.seen) == 1


def subclasses(parent: type[BaseException]) -> set[type[BaseException]]:
    return {parent}.union(*(subclasses(child) for child in parent.__subclasses__()))


def error_of(kind: type[Exception], status: int) -> Exception:
    request = httpx2.Request("POST", "http://x/v1")
    if issubclass(kind, openai.OAuthError):
        return kind(response=httpx2.Response(status, request=request), body=None)
    if issubclass(kind, openai.APIStatusError):
        return kind("m", response=httpx2.Response(status, request=request), body=None)
    if issubclass(kind, openai.APIConnectionError):
        return kind(request=request)
    return Exception.__new__(kind)


SDK_ERRORS: dict[str, tuple[int, Reply]] = {
    "BadRequestError": (400, Rejected("request", 400, None)),
    "AuthenticationError": (401, Rejected("profile", 401, None)),
    "OAuthError": (401, Rejected("profile", 401, None)),
    "PermissionDeniedError": (403, Rejected("profile", 403, None)),
    "NotFoundError": (404, Rejected("profile", 404, None)),
    "ConflictError": (409, Unavailable(409, ran=True)),
    "UnprocessableEntityError": (422, Rejected("request", 422, None)),
    "RateLimitError": (429, Throttled(None)),
    "InternalServerError": (500, Unavailable(500, ran=True)),
    "APIStatusError": (418, Unavailable(418, ran=True)),
    "APIConnectionError": (0, RAN),
    "APITimeoutError": (0, RAN),
    # No call of ours raises these: they would be a bug, and nobody knows what ran.
    **dict.fromkeys(
        (
            "OpenAIError",
            "APIError",
            "APIResponseValidationError",
            "ContentFilterFinishReasonError",
            "InvalidWebhookSignatureError",
            "LengthFinishReasonError",
            "SubjectTokenProviderError",
            "WebSocketConnectionClosedError",
            "WebSocketQueueFullError",
        ),
        (0, RAN),
    ),
}


async def test_every_exception_class_of_the_sdk_has_its_reply() -> None:
    """A class that a new version brings must be looked at, and entered above."""
    named = [*vars(openai._exceptions).values(), *(getattr(openai, n) for n in openai.__all__)]
    kinds = {kind for kind in named if isinstance(kind, type) and issubclass(kind, Exception)}

    async with provider_at(None) as provider:
        replies = {
            kind.__name__: provider._reply_to(
                error_of(kind, SDK_ERRORS.get(kind.__name__, (0, None))[0]), LIMIT_S
            )
            for kind in kinds
        }

    assert replies == {name: reply for name, (_, reply) in SDK_ERRORS.items()}


async def test_the_exceptions_of_the_transport_that_say_it_never_connected_are_these() -> None:
    """Only the third link of the chain says so; whatever is not listed here may have run."""
    never = {
        kind.__name__
        for kind in subclasses(aiohttp.ClientError)
        if issubclass(kind, adapter._NEVER_CONNECTED)
    }

    assert never == {
        "ClientConnectorError",
        "ClientConnectorCertificateError",
        "ClientConnectorDNSError",
        "ClientConnectorSSLError",
        "ClientHttpProxyError",
        "ClientProxyConnectionError",
        "ClientSSLError",
        "ConnectionTimeoutError",
        "UnixClientConnectorError",
    }


async def test_a_bug_is_a_reply_and_a_log_entry_without_texts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, body: object, **__: object) -> None:
        raise RuntimeError(SECRET, body)

    async with provider_at("http://x/v1") as provider:
        monkeypatch.setattr(provider._client, "post", broken)
        with caplog.at_level(logging.DEBUG, logger="services"):
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert reply == RAN
    assert "RuntimeError" in caplog.text
    assert "in broken" in caplog.text
    assert SECRET not in caplog.text
    assert "private system" not in caplog.text
