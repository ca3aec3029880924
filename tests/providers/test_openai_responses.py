"""OpenAI's Responses API: what is sent, and what bodies say."""

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from openai.types.responses import ResponseError

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.openai_responses import parse_response
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
from tests.providers.apis import RESPONSES
from tests.providers.calls import PROMPT, SCHEMA, WIRE
from tests.providers.misbehaving import answer

NOTHING = Unavailable(200, ran=True)
FILTERED = "the provider's filter stopped the answer"
UNASKED = "the provider's filter stopped the request"


async def test_one_call_carries_the_whole_prompt_and_brings_the_whole_answer() -> None:
    reply, server = await RESPONSES.ask(RESPONSES.whole)

    (seen,) = server.seen
    assert reply == RESPONSES.good_reply
    assert (seen.method, seen.path) == ("POST", "/v1/responses")
    assert json.loads(seen.body) == {
        "model": "m",
        "instructions": "private system",
        "input": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
        "max_output_tokens": 77,
        "store": False,
        "text": {
            "format": {"type": "json_schema", "name": "plan_v1", "schema": SCHEMA, "strict": True}
        },
    }


async def test_what_is_unset_is_not_sent_and_what_is_set_is() -> None:
    plain = replace(PROMPT, wire=replace(WIRE, schema=None))

    _, server = await RESPONSES.ask(RESPONSES.whole, prompt=plain, temperature=0.0)

    assert sorted(json.loads(server.seen[0].body)) == [
        *("input", "instructions", "max_output_tokens", "model", "store", "temperature"),
    ]


async def test_statuses_are_read_as_those_of_chat_completions() -> None:
    quota = {"error": {"type": "insufficient_quota"}}

    reply, server = await RESPONSES.ask(answer(quota, 429, {"retry-after": "7"}))

    assert reply == Rejected("profile", 429, "insufficient_quota")
    assert len(server.seen) == 1


def body(*pieces: Any, **rest: Any) -> dict[str, Any]:
    return {
        "status": "completed",
        "output": [{"type": "message", "content": list(pieces)}],
        **rest,
    }


def phased(*messages: tuple[str | None, str]) -> dict[str, Any]:
    """A message in each phase, as models from gpt-5.3-codex on write them."""
    return {
        "status": "completed",
        "output": [
            {"type": "message", "phase": phase, "content": [text(words)]}
            for phase, words in messages
        ],
    }


def text(reply: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": reply}


def facts(stop_reason: str | None = "completed", **rest: Any) -> CallFacts:
    return CallFacts(stop_reason=stop_reason, **rest)


def no_answer(stop_reason: str | None = "completed") -> Reply:
    return NoAnswer(200, facts(stop_reason))


def broken_off(stop_reason: str | None = "completed") -> Reply:
    return Unavailable(200, ran=True, facts=facts(stop_reason))


def cut(reason: Any) -> dict[str, Any]:
    return body(text("{"), status="incomplete", incomplete_details={"reason": reason})


REFUSAL = {"type": "refusal", "refusal": "no"}
ANSWERS: list[tuple[Any, Reply]] = [
    (body(text("hi")), Answered("hi", facts())),
    (body(text("h"), text("i")), Answered("hi", facts())),
    (body(text("")), Answered("", facts())),
    (body(REFUSAL), Refused("no", facts())),
    (body(text("hi"), REFUSAL), Refused("no", facts())),
    (body(text("hi"), {"type": "refusal", "refusal": " "}), Answered("hi", facts())),
    (body({"type": "refusal", "refusal": "n" * 5_000}), Refused("n" * 2_045 + "…", facts())),
    (cut("max_output_tokens"), Truncated(77, facts("max_output_tokens"))),
    (cut("content_filter"), Refused(FILTERED, facts("content_filter"), "content_filter")),
    (cut("max_messages"), broken_off("max_messages")),
    (cut(None), broken_off("incomplete")),
    (cut(["max_output_tokens"]), broken_off("incomplete")),
    (body(), no_answer()),
    ({"status": "completed", "output": [{"type": "function_call", "name": "f"}]}, no_answer()),
    (
        {"status": "completed", "output": [{"type": "reasoning", "content": [text("hm")]}]},
        no_answer(),
    ),
    (phased(("commentary", "I look."), ("final_answer", "hi")), Answered("hi", facts())),
    (phased(("commentary", "{}"), (None, "hi")), Answered("hi", facts())),
    (phased(("commentary", "I look.")), no_answer()),
    ({"status": "completed", "output": ["hi", None]}, no_answer()),
    ({"status": "completed", "output": "hi"}, no_answer()),
    (body(text("hi"), status="in_progress"), broken_off("in_progress")),
    (body(text("hi"), status="cancelled"), broken_off("cancelled")),
    (body(text("hi"), status=None), NOTHING),
    ({"error": {"code": "a_new_word"}}, NOTHING),
    ({"status": "failed"}, broken_off("failed")),
    ({"status": "failed", "error": "odd"}, broken_off("failed")),
    (None, NOTHING),
    ([], NOTHING),
]


@pytest.mark.parametrize(("document", "expected"), ANSWERS)
def test_an_answer_is_read_in_order_status_refusal_content(document: Any, expected: Reply) -> None:
    assert parse_response(200, {}, json.dumps(document).encode(), 77) == expected


FAILURES: dict[str, Reply] = {
    "rate_limit_exceeded": Throttled(None),
    "data_residency_mismatch": Rejected("profile", 200, "data_residency_mismatch"),
    **{
        code: Refused(UNASKED, facts("failed"), code)
        for code in (
            *("invalid_prompt", "bio_policy", "misalignment_policy_violation"),
            "image_content_policy_violation",
        )
    },
    **dict.fromkeys(
        (
            *("server_error", "vector_store_timeout", "invalid_image", "invalid_image_format"),
            *("invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small"),
            *("image_parse_error", "invalid_image_mode", "image_file_too_large"),
            *("unsupported_image_media_type", "empty_image_file", "failed_to_download_image"),
            "image_file_not_found",
        ),
        broken_off("failed"),
    ),
}


def test_every_failure_inside_of_http_200_has_its_reply() -> None:
    """A code that a new version of the SDK brings must be looked at, and entered above."""
    codes = get_args(ResponseError.model_fields["code"].annotation)

    replies = {
        code: parse_response(
            200, {}, json.dumps({"status": "failed", "error": {"code": code}}).encode(), 77
        )
        for code in codes
    }

    assert replies == FAILURES


ANY_VALUE = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"json_text": {"type": "string", "description": "A JSON value."}},
            "required": ["json_text"],
            "additionalProperties": False,
        },
        {"type": ["boolean", "number", "string"]},
        {"type": "null"},
    ]
}


@pytest.mark.parametrize("member", [{"type": ["string", "null"]}, ANY_VALUE])
def test_a_response_repeats_the_schema_and_is_read(member: Any) -> None:
    """One of the largest: any value travels as JSON text, in a member of an object of its own."""
    members = {f"m{number}": member for number in range(2_490)}
    schema = {"type": "object", "properties": members, "required": [*members]}
    form = {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}
    document = json.dumps(body(text("hi"), text={"format": form}), indent=2).encode()

    assert parse_response(200, {}, document, 77) == Answered("hi", facts())


def test_usage_and_names_are_believed_only_where_they_can_be_true() -> None:
    counts = {
        "input_tokens": 9,
        "output_tokens": 2,
        "total_tokens": 14,  # with thoughts that its server counts beside the output
        "input_tokens_details": {"cached_tokens": 8},
    }
    good = body(text("hi"), usage=counts, model="m", id="resp_1")
    bad = body(text("hi"), usage={"input_tokens": -1, "output_tokens": "2"}, model="two words")

    assert parse_response(200, {}, json.dumps(good).encode(), 77) == Answered(
        "hi",
        facts(
            model="m",
            request_id="resp_1",
            usage=Usage(input_tokens=9, output_tokens=5, cached_tokens=8),
        ),
    )
    assert parse_response(200, {}, json.dumps(bad).encode(), 77) == Answered("hi", facts())
