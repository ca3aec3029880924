"""The Gemini API over real HTTP: what it sends, what statuses mean."""

import json
from dataclasses import replace
from typing import Any

import pytest

from services.worker.core.attempt.reply import (
    Answered,
    Rejected,
    Reply,
    Throttled,
    Truncated,
    Unavailable,
)
from tests.providers.apis import GEMINI
from tests.providers.calls import PROMPT, SCHEMA, SECRET, WIRE
from tests.providers.misbehaving import Misbehaving, Script, answer

WHOLE = GEMINI.whole


def sent(server: Misbehaving) -> Any:
    return json.loads(server.seen[0].body)


async def test_one_call_carries_the_whole_prompt_and_brings_the_whole_answer() -> None:
    reply, server = await GEMINI.ask(WHOLE)

    (seen,) = server.seen
    assert reply == GEMINI.good_reply
    assert (seen.method, seen.path) == ("POST", "/v1/models/m:generateContent")
    assert seen.headers["x-goog-api-key"] == SECRET
    assert sent(server) == {
        "contents": [
            {"parts": [{"text": "q"}], "role": "user"},
            {"parts": [{"text": "a"}], "role": "model"},
        ],
        "systemInstruction": {"parts": [{"text": "private system"}], "role": "user"},
        "generationConfig": {
            "maxOutputTokens": 77,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        },
    }


async def test_what_is_unset_is_not_sent_and_what_is_set_is() -> None:
    plain = replace(PROMPT, wire=replace(WIRE, schema=None))

    _, server = await GEMINI.ask(WHOLE, prompt=plain, temperature=0.0, thinking_budget=0)

    assert sent(server)["generationConfig"] == {
        "maxOutputTokens": 77,
        "temperature": 0.0,
        "thinkingConfig": {"thinking_budget": 0},  # both spellings are the API's
    }


async def test_a_schema_is_sent_as_it_is() -> None:
    schema: Any = {
        "type": "object",
        "properties": {"snake_case": {"type": ["string", "null"]}, "b": {"$ref": "#/$defs/x_y"}},
        "required": ["snake_case"],
        "additionalProperties": False,
        "$defs": {"x_y": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]}},
    }

    _, server = await GEMINI.ask(WHOLE, prompt=replace(PROMPT, wire=replace(WIRE, schema=schema)))

    assert json.dumps(sent(server)["generationConfig"]["responseJsonSchema"]) == json.dumps(schema)


async def test_the_environment_chooses_neither_product_nor_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "another key")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "l")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "beta")

    _, server = await GEMINI.ask(WHOLE, api_key=None)

    assert server.seen[0].path == "/v1/models/m:generateContent"
    assert "x-goog-api-key" not in server.seen[0].headers


async def test_an_answer_that_goes_on_is_not_asked_for_again() -> None:
    candidate = {
        "content": {"parts": [{"text": "{"}]},
        "finishReason": "CONTINUATION",
        "continuationToken": "dG9rZW4=",
    }

    reply, server = await GEMINI.ask(answer({"candidates": [candidate]}))

    assert isinstance(reply, Truncated)
    assert len(server.seen) == 1


async def test_a_deep_answer_does_not_cost_the_usage() -> None:
    deep = "[" * 50_000
    document = json.loads(json.dumps(GEMINI.good))
    document["candidates"][0]["content"]["parts"][0]["text"] = deep

    reply, _ = await GEMINI.ask(answer(document))

    assert isinstance(GEMINI.good_reply, Answered)
    assert reply == replace(GEMINI.good_reply, content=deep)


def error(status: str, *details: dict[str, Any], message: str = SECRET) -> dict[str, Any]:
    return {"error": {"code": 1, "message": message, "status": status, "details": list(details)}}


INFO = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}
EXHAUSTED = error("RESOURCE_EXHAUSTED", RETRY)
STATUSES: list[tuple[Script, Reply]] = [
    (answer(error("INVALID_ARGUMENT"), 400), Rejected("request", 400, "INVALID_ARGUMENT")),
    (answer(error("INVALID_ARGUMENT", INFO), 400), Rejected("profile", 400, "API_KEY_INVALID")),
    (answer(error("PERMISSION_DENIED"), 403), Rejected("profile", 403, "PERMISSION_DENIED")),
    (answer(b"<html>", 404), Rejected("profile", 404, None)),
    (answer({}, 408), Unavailable(408, ran=True)),
    (answer({}, 413), Rejected("request", 413, None)),
    (answer(EXHAUSTED, 429), Throttled(17.0)),
    (answer([EXHAUSTED], 429), Throttled(17.0)),
    (answer(EXHAUSTED, 429, {"retry-after": "3"}), Throttled(3.0)),
    (answer({}, 429), Throttled(None)),
    (answer(b"{", 429, {"retry-after": "7"}), Throttled(7.0)),
    (answer([1, 2], 429), Throttled(None)),
    (answer(b"\xff", 500), Unavailable(500, ran=True)),
    (answer(error("UNAVAILABLE"), 503), Unavailable(503, ran=True)),
    (answer(error("UNAVAILABLE", RETRY), 503), Throttled(17.0)),
    (answer(b"", 307, {"location": "/elsewhere"}), Rejected("profile", 307, None)),
    (answer(b"[" * 100_000, 500), Unavailable(500, ran=True)),
    (answer(b"", 999), Unavailable(999, ran=True)),
]


@pytest.mark.parametrize(("script", "expected"), STATUSES)
async def test_a_status_is_one_call_and_its_reply(script: Script, expected: Reply) -> None:
    reply, server = await GEMINI.ask(script)

    assert reply == expected
    assert len(server.seen) == 1
