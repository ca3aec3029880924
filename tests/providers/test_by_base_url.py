"""Servers that speak OpenAI's API at an address of their own, as they differ from it."""

import json
from typing import Any

import pytest

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.openai_replies import parse_error
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    Truncated,
    Unavailable,
)
from services.worker.ports.provider import Ready
from tests.providers.calls import LIMIT_S, PROMPT, SECRET, StoppedClock
from tests.providers.misbehaving import answer, misbehaving
from tests.providers.openai_calls import ask, provider_at

COUNTS = {"prompt_tokens": 12, "completion_tokens": 3}
USAGE = Usage(input_tokens=12, output_tokens=3)
FILTERED = "the provider's filter stopped the request"
QUEUE_IS_FULL = "The request queue is full."
# Mistral's models that think answer in parts; Groq adds members of its own and has a longer path.
MISTRAL_PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "so"}]},
    {"type": "text", "text": "{}"},
]
# Groq's 400 gives what its model wrote, or that in its place where the output limit cut it.
GROQ_CUT = "max completion tokens reached before generating a valid document"
GROQ_MORE = {"x_groq": {"id": "req_1"}, "usage_breakdown": None}


def good(content: Any, finish: str = "stop", **more: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return {"id": "c-1", "model": "m", "choices": [choice], "usage": {**COUNTS, **more}}


@pytest.mark.parametrize(
    "body",
    [good("{}"), good(MISTRAL_PARTS), {**good("{}", queue_time=0.01, total_time=0.2), **GROQ_MORE}],
    ids=["mistral", "mistral thinks", "groq"],
)
async def test_an_answer_is_read(body: dict[str, Any]) -> None:
    reply, server = await ask(answer(body))

    assert isinstance(reply, Answered)
    assert (reply.content, reply.facts.usage) == ("{}", USAGE)
    sent = json.loads(server.seen[0].body)
    assert sent["max_tokens"] == 77  # both know no other name for certain
    assert sent["response_format"]["type"] == "json_schema"
    assert server.seen[0].headers["authorization"] == f"Bearer {SECRET}"


async def test_groqs_cut_answer_is_a_truncation_at_the_limit_that_was_asked_for() -> None:
    error = {"code": "json_validate_failed", "failed_generation": GROQ_CUT}

    reply, _ = await ask(answer({"error": error}, 400))

    assert reply == Truncated(77, CallFacts())


async def test_a_model_that_writes_of_that_limit_is_not_cut_by_it() -> None:
    error = {"code": "json_validate_failed", "failed_generation": f"{{ {GROQ_CUT}"}

    reply, _ = await ask(answer({"error": error}, 400))

    assert reply == NoAnswer(400, CallFacts())


async def test_mistrals_full_context_is_a_truncation() -> None:
    reply, _ = await ask(answer(good("{", "model_length")))

    assert isinstance(reply, Truncated)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, {"message": "Unauthorized", "request_id": "r"}, Rejected("profile", 401, None)),
        (
            400,
            {"object": "error", "message": "no", "type": "invalid_request_error", "code": 3051},
            Rejected("request", 400, "invalid_request_error"),
        ),
        (422, {"object": "error", "message": {"detail": []}}, Rejected("request", 422, None)),
        (498, {"error": {"code": "capacity_exceeded"}}, Throttled(None)),  # Groq's flex
        (498, {"error": {"type": "invalid_token"}}, Unavailable(498, ran=True)),
        (
            400,
            {"error": {"code": "json_validate_failed", "failed_generation": "{"}},
            NoAnswer(400, CallFacts()),
        ),
        (  # Fireworks', whose code is its status alone
            412,
            {"error": {"message": "Account x is suspended", "code": "PRECONDITION_FAILED"}},
            Rejected("profile", 412, "PRECONDITION_FAILED"),
        ),
        (  # Portkey's, where a guardrail denies a request or an answer
            446,
            {"error": {"message": "The guardrail checks defined in the config failed"}},
            Refused(FILTERED, CallFacts(), "content_filter"),
        ),
        (
            503,
            {"object": "error", "message": QUEUE_IS_FULL, "code": 503},
            Throttled(None),
        ),  # SGLang
        (503, {"error": {"message": QUEUE_IS_FULL, "code": 503}}, Throttled(None)),
        (
            503,
            {"object": "error", "message": f"no worker for: {QUEUE_IS_FULL}", "code": 503},
            Unavailable(503, ran=True),
        ),
        (  # LM Studio's
            400,
            {"error": "The model has crashed without additional information. (Exit code: null)"},
            Unavailable(400, ran=True),
        ),
        (
            400,
            {"error": "Invalid schema: 'The model has crashed without additional information.'"},
            Rejected("request", 400, None),
        ),
    ],
)
def test_an_error_is_read(status: int, body: dict[str, Any], expected: Reply) -> None:
    found = parse_error(status, {}, json.dumps(body).encode(), StoppedClock().now())

    assert found == expected


async def test_groqs_path_is_kept_and_its_listing_read() -> None:
    listed = answer({"object": "list", "data": [{"id": "m", "owned_by": "x", "active": True}]})
    async with misbehaving(listed, answer(good("{}"))) as server:
        address = server.base_url.replace("/v1", "/openai/v1")
        async with provider_at(address) as provider:
            readiness = await provider.preflight()
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert isinstance(readiness, Ready)
    assert isinstance(reply, Answered)
    assert [seen.path for seen in server.seen] == [
        "/openai/v1/models",
        "/openai/v1/chat/completions",
    ]
