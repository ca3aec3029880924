"""The exception classes of OpenAI's SDK: each is a Reply, and none tells its text to the log."""

import logging

import httpx2
import openai
import pytest

from services.worker.core.reply import Rejected, Reply, Throttled, Unavailable
from tests.providers.openai_calls import LIMIT_S, PROMPT, SECRET, provider_at
from tests.providers.sdk_errors import exception_classes

RAN = Unavailable(None, ran=True)


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


# Those of tools, agents, browsers, sockets and another cloud, which nothing here uses.
FOREIGN_FAMILIES = {
    *("APIRemovedInV1", "AgentFilePreparationError", "AgentFileStagingError", "BrowserError"),
    *("AgentOutputParseError", "AgentTurnResultError", "ComputerUseError"),
    *("DecisionsToolRunnerError", "MissingStreamClassError", "ResponsesWebSocketError"),
    *("BrowserCancelledError", "ResponsesWebSocketBufferError"),
    *("ToolRunnerError", "_TransientTokenExchangeError"),
}


async def test_every_other_exception_class_of_the_sdk_is_known_and_a_bug() -> None:
    """A family that a new version brings, or a new status, must be looked at, and entered."""
    kinds = exception_classes(openai)
    known = SDK_ERRORS.keys() | FOREIGN_FAMILIES
    others = {name: kind for name, kind in kinds.items() if name not in SDK_ERRORS}
    unknown = {
        name
        for name, kind in others.items()
        if not known & {base.__name__ for base in kind.__mro__}
        or issubclass(kind, openai.APIStatusError | openai.APIConnectionError)
    }

    async with provider_at("http://x/v1") as provider:
        replies = {
            provider._reply_to(kind.__new__(kind), LIMIT_S)
            for kind in others.values()
            if not issubclass(kind, TimeoutError)
        }

    assert known <= kinds.keys()
    assert unknown == set()
    assert replies == {RAN}


async def test_a_bug_is_a_reply_and_a_log_entry_without_texts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(request: httpx2.Request, **_: object) -> None:
        raise RuntimeError(SECRET, request.content)

    async with provider_at("http://x/v1") as provider:
        monkeypatch.setattr(provider._http, "send", broken)
        with caplog.at_level(logging.DEBUG, logger="services"):
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert reply == RAN
    assert "RuntimeError" in caplog.text
    assert "in broken" in caplog.text
    assert SECRET not in caplog.text
    assert "private system" not in caplog.text
