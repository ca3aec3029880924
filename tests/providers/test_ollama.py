"""The API of Ollama over real HTTP: what it sends, what statuses mean."""

import json
from dataclasses import replace
from typing import Any

import pytest

from services.worker.core.attempt.reply import Rejected, Reply, Throttled, Unavailable
from tests.providers.apis import OLLAMA
from tests.providers.calls import PROMPT, SCHEMA, SECRET, WIRE
from tests.providers.misbehaving import Misbehaving, Script, answer

WHOLE = OLLAMA.whole


def sent(server: Misbehaving) -> Any:
    return json.loads(server.seen[0].body)


async def test_one_call_carries_the_whole_prompt_and_brings_the_whole_answer() -> None:
    reply, server = await OLLAMA.ask(WHOLE)

    (seen,) = server.seen
    assert reply == OLLAMA.good_reply
    assert (seen.method, seen.path) == ("POST", "/api/chat")
    assert seen.headers["authorization"] == f"Bearer {SECRET}"
    assert sent(server) == {
        "model": "m",
        "stream": False,
        "messages": [
            {"role": "system", "content": "private system"},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "a"},
        ],
        "tools": [],
        "format": SCHEMA,
        "options": {"num_predict": 77},
    }


async def test_what_is_unset_is_not_sent_and_what_is_set_is() -> None:
    plain = replace(PROMPT, wire=replace(WIRE, schema=None))

    _, server = await OLLAMA.ask(
        WHOLE, prompt=plain, temperature=0.0, context_tokens=8192, think=False
    )

    body = sent(server)
    assert "format" not in body
    assert body["think"] is False
    assert body["options"] == {"num_predict": 77, "temperature": 0.0, "num_ctx": 8192}


async def test_a_schema_is_sent_as_it_is() -> None:
    schema: Any = {
        "type": "object",
        "properties": {"v": {"type": ["null", "string"], "enum": ["a", None]}},
        "required": ["v"],
        "additionalProperties": False,
    }

    _, server = await OLLAMA.ask(WHOLE, prompt=replace(PROMPT, wire=replace(WIRE, schema=schema)))

    assert json.dumps(sent(server)["format"]) == json.dumps(schema)


async def test_the_environment_changes_nothing_of_what_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "another key")
    monkeypatch.setenv("OLLAMA_HOST", "http://elsewhere.invalid")

    _, server = await OLLAMA.ask(WHOLE, api_key=None)

    assert "authorization" not in server.seen[0].headers


STATUSES: list[tuple[Script, Reply]] = [
    (answer({"error": "invalid format"}, 400), Rejected("request", 400, None)),
    (
        answer({"error": '"m" does not support chat'}, 400),
        Rejected("profile", 400, "unsupported_by_model"),
    ),
    (answer({"error": "unauthorized"}, 401), Rejected("profile", 401, None)),
    (answer({"error": "model 'm' not found"}, 404), Rejected("profile", 404, None)),
    (answer([1, 2], 429, {"retry-after": "7"}), Throttled(7.0)),
    (answer({}, 429), Throttled(None)),
    (answer({"error": "server busy, please try again.  maximum pending …"}, 503), Throttled(None)),
    (answer({"error": "something else"}, 503), Unavailable(503, ran=True)),
    *(
        (answer({"error": f"invalid format: {{'title': '{quoted}'}}"}, status), reply)
        for quoted in (
            "m does not support chat",
            "model requires more system memory",
            "you have reached your weekly usage limit",
            "server busy",
        )
        for status, reply in (
            (400, Rejected("request", 400, None)),
            (503, Unavailable(503, ran=True)),
        )
    ),
    (answer({}, 503, {"retry-after": "2"}), Throttled(2.0)),
    (
        answer({"error": "model requires more system memory (9 GiB) than is available"}, 500),
        Rejected("profile", 500, "out_of_memory"),
    ),
    (
        answer({"error": "you (me) have reached your weekly usage limit, upgrade …"}, 429),
        Rejected("profile", 429, "usage_limit_reached"),
    ),
    (
        answer({"error": "you (me) have reached your session usage limit, upgrade …"}, 429),
        Throttled(None),
    ),
    (answer({"error": "llama runner process has terminated"}, 500), Unavailable(500, ran=True)),
    (answer(b"\xff", 500), Unavailable(500, ran=True)),
    (answer(b"[" * 100_000, 429), Throttled(None)),
    (answer(b"", 307, {"location": "/elsewhere"}), Rejected("profile", 307, None)),
    (answer(b"", 999), Unavailable(999, ran=True)),
]


@pytest.mark.parametrize(("script", "expected"), STATUSES)
async def test_a_status_is_one_call_and_its_reply(script: Script, expected: Reply) -> None:
    reply, server = await OLLAMA.ask(script)

    assert reply == expected
    assert len(server.seen) == 1
