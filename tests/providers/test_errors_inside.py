"""Errors under HTTP 200: each API reads them by the status that they tell, and counts no call."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from answerbus.budget import Usage
from services.worker.adapters.providers.apis import anthropic as anthropic_replies
from services.worker.adapters.providers.apis import bedrock as bedrock_replies
from services.worker.adapters.providers.apis import gemini as gemini_replies
from services.worker.adapters.providers.apis import ollama as ollama_replies
from services.worker.adapters.providers.apis import openai_replies, openai_responses
from services.worker.adapters.providers.apis.response_fields import json_in
from services.worker.core.attempt.reply import (
    CallFacts,
    Refused,
    Rejected,
    Reply,
    Throttled,
    Unavailable,
)
from tests.providers.apis import WITH_CLOUDS
from tests.providers.calls import Api
from tests.providers.misbehaving import answer

READERS = {
    "openai": openai_replies.parse_response,
    "responses": openai_responses.parse_response,
    "anthropic": anthropic_replies.parse_response,
    "gemini": gemini_replies.parse_response,
    "ollama": ollama_replies.parse_response,
    "bedrock": bedrock_replies.parse_response,
}
EACH = pytest.mark.parametrize("api", READERS)
NOTHING = Unavailable(200, ran=True)


def read(api: str, document: Any, headers: dict[str, str] | None = None) -> Reply:
    return READERS[api](200, headers or {}, json.dumps(document).encode(), 77)


NUMBERED: list[tuple[Any, Reply]] = [
    ({"code": 429}, Throttled(None)),
    ({"code": "429"}, Throttled(None)),
    ({"status": 429, "code": None}, Throttled(None)),
    ({"code": 413}, Rejected("request", 413, None)),
    ({"code": 403}, Rejected("profile", 403, None)),
    ({"code": 500}, Unavailable(500, ran=True)),
    ({"code": 200}, NOTHING),
    ({"code": 42.9}, NOTHING),
    ({"code": 429.0}, NOTHING),
    ({"code": True}, NOTHING),
    ({"code": "٤٢٩"}, NOTHING),
    ({"code": [429]}, NOTHING),
    ({"code": 10**400}, NOTHING),
    ({"message": "odd"}, NOTHING),
    ({}, NOTHING),
]


@EACH
@pytest.mark.parametrize(("error", "expected"), NUMBERED)
def test_the_number_in_an_error_is_the_true_status(api: str, error: Any, expected: Reply) -> None:
    assert read(api, {"error": error}) == expected


@EACH
@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "-7"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e99"}, 86_400.0),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT"}, None),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 10:00:30 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
    ],
)
def test_it_says_when_to_come_back(api: str, headers: dict[str, str], wait_s: float | None) -> None:
    """A date counts from the server's own."""
    assert read(api, {"error": {"code": 429}}, headers) == Throttled(wait_s)


FILTER = Refused("the provider's filter stopped the request", CallFacts(), "content_filter")
NAMED: list[tuple[str, Any, Reply]] = [
    ("anthropic", {"type": "rate_limit_error"}, Throttled(None)),
    ("anthropic", {"type": "overloaded_error"}, Unavailable(529, ran=True)),
    ("anthropic", {"type": "api_error"}, Unavailable(500, ran=True)),
    ("anthropic", {"type": "authentication_error"},
     Rejected("profile", 401, "authentication_error")),
    ("anthropic", {"type": "invalid_request_error", "message": "prompt is too long"},
     Rejected("request", 400, "invalid_request_error")),
    ("anthropic", {"type": "invalid_request_error", "message": "Your credit balance is too low"},
     Rejected("profile", 400, "billing_error")),
    ("anthropic", {"type": "a_new_word"}, NOTHING),
    ("gemini", {"status": "RESOURCE_EXHAUSTED"}, Throttled(None)),
    ("gemini", {"status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "17s"}]},
     Throttled(17.0)),
    ("gemini", {"code": 429, "details": [{"violations": [{"quotaId": "RequestsPerDay"}]}]},
     Rejected("profile", 429, None)),
    ("gemini", {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]},
     Rejected("profile", 400, "API_KEY_INVALID")),
    ("gemini", {"status": "UNAVAILABLE"}, Unavailable(503, ran=True)),
    ("gemini", {"status": "A_NEW_WORD"}, NOTHING),
    ("ollama", "model 'm' does not support chat",
     Rejected("profile", 200, "unsupported_by_model")),
    ("ollama", "model requires more system memory (9 GiB) than is available",
     Rejected("profile", 200, "out_of_memory")),
    ("ollama", "llama runner process has terminated", NOTHING),
    ("openai", {"type": "rate_limit_error"}, Throttled(None)),
    ("openai", {"code": "insufficient_quota"}, Rejected("profile", 429, "insufficient_quota")),
    ("openai", {"code": "slow_down"}, Throttled(None)),
    ("openai", {"code": "odd", "type": "budget_exceeded"},
     Rejected("profile", 200, "budget_exceeded")),
    ("openai", {"code": "content_filter"}, FILTER),
    ("openai", {"code": "context_length_exceeded"},
     Rejected("request", 400, "context_length_exceeded")),
    ("responses", {"code": "content_filter"}, FILTER),
    ("responses", {"code": "invalid_api_key"}, Rejected("profile", 200, "invalid_api_key")),
]  # fmt: skip


@pytest.mark.parametrize(("api", "error", "expected"), NAMED)
def test_so_is_the_word_that_its_maker_documents(api: str, error: Any, expected: Reply) -> None:
    assert read(api, {"error": error}) == expected


@EACH
def test_its_body_is_parsed_once(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 2 MiB takes 10 ms of the event loop."""
    parse = Mock(side_effect=json_in)
    monkeypatch.setattr(f"{READERS[api].__module__}.json_in", parse)

    assert read(api, {"error": {"code": 429}}) == Throttled(None)
    assert parse.call_count == 1


def test_gemini_sends_a_list_where_it_streams() -> None:
    assert read("gemini", [{"error": {"code": 429}}]) == Throttled(None)


def test_the_failures_of_responses_have_codes_of_errors() -> None:
    failed = {"status": "failed", "error": {"code": "insufficient_quota"}}

    assert read("responses", failed) == Rejected("profile", 200, "insufficient_quota")
    refused = read("responses", {"status": "failed", "error": {"code": "cyber_policy"}})
    assert isinstance(refused, Refused)


@pytest.mark.parametrize("code", ["rate_limit_exceeded", "server_is_overloaded", "slow_down"])
def test_throttled_responses_say_when_to_come_back(code: str) -> None:
    failed = {"status": "failed", "error": {"code": code}}

    assert read("responses", failed, {"retry-after": "7"}) == Throttled(7.0)
    assert read("responses", failed) == Throttled(None)


@pytest.mark.parametrize("api", WITH_CLOUDS, ids=lambda api: api.name)
async def test_over_http_it_is_one_call(api: Api) -> None:
    error = {"type": "error", "error": {"code": 429, "message": "slow down"}}

    reply, server = await api.ask(answer(error, headers={"retry-after": "3"}))

    assert reply == Throttled(3.0)
    assert len(server.seen) == 1


CHAT_USAGE = {"prompt_tokens": 12, "completion_tokens": 3}
RESPONSES_USAGE = {"input_tokens": 12, "output_tokens": 3}
USED = CallFacts(usage=Usage(input_tokens=12, output_tokens=3))
FAILED = replace(USED, stop_reason="failed")
SLOW: dict[str, Any] = {"error": {"code": 429}}
NO_CREDIT = {"error": {"code": "insufficient_quota"}}
PAID: list[tuple[str, Any, Reply]] = [
    ("openai", {**SLOW, "choices": [{}], "usage": CHAT_USAGE}, Unavailable(429, True, USED)),
    ("openai", {"error": {"code": "content_filter"}, "usage": CHAT_USAGE},
     Refused(FILTER.reason, USED, FILTER.category)),
    ("openai", {**SLOW, "usage": {**CHAT_USAGE, "completion_tokens": 0}}, Throttled(None)),
    ("responses", {**SLOW, "usage": RESPONSES_USAGE}, Unavailable(429, True, USED)),
    ("responses", {**NO_CREDIT, "status": "failed", "usage": RESPONSES_USAGE},
     Unavailable(200, True, FAILED)),
    ("responses", {"error": {"code": "rate_limit_exceeded"}, "status": "failed",
                   "usage": RESPONSES_USAGE}, Unavailable(200, True, FAILED)),
]  # fmt: skip


@pytest.mark.parametrize(("api", "document", "expected"), PAID)
def test_one_beside_a_usage_with_output_is_counted_with_that(
    api: str, document: Any, expected: Reply
) -> None:
    """A model has written something, and its provider is paid for it."""
    assert read(api, document) == expected


@pytest.mark.parametrize(("error", "expected"), NUMBERED)
def test_one_is_found_in_a_response_of_an_unknown_status(error: Any, expected: Reply) -> None:
    """As a gateway sends it in the place of one of the maker's."""
    found = read("responses", {"status": "error", "error": error})

    facts = CallFacts(stop_reason="error") if not error else CallFacts()
    assert found == (replace(expected, facts=facts) if expected == NOTHING else expected)
