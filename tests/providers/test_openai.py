"""OpenAI's APIs over real HTTP: what it sends, what statuses mean."""

import json
from dataclasses import replace
from typing import Any

import pytest

from services.worker.core.attempt.reply import Rejected, Reply, Throttled, Unavailable
from tests.providers.apis import OPENAI
from tests.providers.misbehaving import Misbehaving, answer
from tests.providers.openai_calls import (
    GOOD_REPLY,
    PROMPT,
    SCHEMA,
    SECRET,
    WHOLE,
    WIRE,
    ask,
)


def sent(server: Misbehaving) -> Any:
    return json.loads(server.seen[0].body)


async def test_one_call_carries_the_whole_prompt_and_brings_the_whole_answer() -> None:
    reply, server = await ask(WHOLE)

    (seen,) = server.seen
    wanted = ("authorization", "accept-encoding", "content-type", "openai-organization")
    assert reply == GOOD_REPLY
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    assert [seen.headers.get(name) for name in wanted] == [
        f"Bearer {SECRET}",
        "identity",
        "application/json",
        None,
    ]
    assert sent(server) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "private system"},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "a"},
        ],
        "max_tokens": 77,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "plan_v1", "schema": SCHEMA, "strict": True},
        },
    }


async def test_what_is_unset_is_not_sent_and_what_is_set_is() -> None:
    plain = replace(PROMPT, wire=replace(WIRE, schema=None))

    _, server = await ask(
        WHOLE, prompt=plain, temperature=0.0, output_limit_field="max_completion_tokens"
    )

    assert sorted(sent(server)) == ["max_completion_tokens", "messages", "model", "temperature"]
    assert sent(server)["temperature"] == 0.0


async def test_openai_itself_gets_the_output_limit_by_its_newer_name() -> None:
    body = OPENAI.specified(None).request(PROMPT).body

    assert body is not None
    assert body["max_completion_tokens"] == 77
    assert "max_tokens" not in body


async def test_the_environment_changes_nothing_of_what_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_API_KEY", "another key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.invalid/v1")

    _, server = await ask(WHOLE, api_key=None)

    headers = server.seen[0].headers
    assert "authorization" not in headers
    assert "openai-organization" not in headers
    assert "openai-project" not in headers


LATER = "Sat, 21 Nov 2026 10:00:30 GMT"
QUOTA = {"error": {"message": f"no money, {SECRET}", "type": "insufficient_quota", "code": None}}
OVER_THE_MINUTE = {"error": {
    "message": "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit "
    "30000, Requested 60000. The input or output tokens must be reduced in order to run "
    "successfully.",
    "type": "tokens", "param": None, "code": "rate_limit_exceeded"}}  # fmt: skip
STATUSES: list[tuple[int, dict[str, str | bytes], Any, Reply]] = [
    (400, {}, {"error": {"code": None, "type": "invalid_request_error"}},
     Rejected("request", 400, "invalid_request_error")),
    (401, {}, {"error": {"code": "invalid_api_key"}}, Rejected("profile", 401, "invalid_api_key")),
    (404, {}, b"<html>", Rejected("profile", 404, None)),
    (408, {}, {}, Unavailable(408, ran=True)),
    (409, {}, {}, Unavailable(409, ran=True)),
    (413, {}, {}, Rejected("request", 413, None)),
    (422, {}, {}, Rejected("request", 422, None)),
    (429, {}, {}, Throttled(None)),
    (429, {"retry-after": "7"}, b"[" * 100_000, Throttled(7.0)),
    (429, {"retry-after": LATER}, {}, Throttled(30.0)),
    (429, {"retry-after": b"\xff"}, b"\xff", Throttled(None)),
    (429, {"retry-after": "7"}, QUOTA, Rejected("profile", 429, "insufficient_quota")),
    (429, {"content-type": "text/plain; charset=undefined"}, QUOTA,
     Rejected("profile", 429, "insufficient_quota")),
    (429, {"retry-after": "7"}, OVER_THE_MINUTE, Rejected("request", 429, "request_too_large")),
    (500, {}, {"error": "text"}, Unavailable(500, ran=True)),
    (503, {}, {}, Unavailable(503, ran=True)),
    (503, {"retry-after": "2"}, {}, Throttled(2.0)),
    (529, {"retry-after-ms": "1500"}, {}, Throttled(1.5)),
    (307, {"location": "/elsewhere"}, b"", Rejected("profile", 307, None)),
    (999, {}, b"", Unavailable(999, ran=True)),
]  # fmt: skip


@pytest.mark.parametrize(("status", "headers", "body", "expected"), STATUSES)
async def test_a_status_is_one_call_and_its_reply(
    status: int, headers: dict[str, str | bytes], body: Any, expected: Reply
) -> None:
    reply, server = await ask(answer(body, status, headers))

    assert reply == expected
    assert len(server.seen) == 1
