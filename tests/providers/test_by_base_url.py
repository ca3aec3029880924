"""Vendors that speak OpenAI's API at an address of their own: Mistral and Groq, as they differ."""

import json
from typing import Any

import pytest

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.openai_replies import parse_error
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
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
# Mistral's models that think answer in parts; Groq adds members of its own and has a longer path.
MISTRAL_PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "so"}]},
    {"type": "text", "text": "{}"},
]
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
