"""What bodies and headers say, row by row."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.openai_replies import parse_error, parse_response
from services.worker.adapters.providers.apis.response_fields import (
    RETRY_AFTER_S_MAX,
    TOKENS_MAX,
    retry_after_s,
)
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

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
NOTHING = Unavailable(200, ran=True)
FILTERED = "the provider's filter stopped the answer"


def body(message: Any = None, finish: Any = "stop", **rest: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish}], **rest}


def facts(stop_reason: str | None = "stop", **rest: Any) -> CallFacts:
    return CallFacts(stop_reason=stop_reason, **rest)


def no_answer(stop_reason: str | None = "stop") -> Reply:
    return NoAnswer(200, facts(stop_reason))


def broken_off(stop_reason: str | None = "stop") -> Reply:
    return Unavailable(200, ran=True, facts=facts(stop_reason))


ANSWERS: list[tuple[Any, Reply]] = [
    (body({"content": "hi"}), Answered("hi", facts())),
    (body({"content": ""}), Answered("", facts())),
    (body({"content": "hi"}, None), Answered("hi", facts(None))),
    (body({"content": "hi"}, "tool_calls"), Answered("hi", facts("tool_calls"))),
    (body({"content": "hi"}, {"odd": 1}), Answered("hi", facts(None))),
    (body({"content": "hi"}, "two words"), Answered("hi", facts(None))),
    ({"choices": [{"message": {"content": "first"}}, {"message": {"content": "second"}}]},
     Answered("first", facts(None))),
    (body({"content": None, "refusal": "no"}), Refused("no", facts())),
    (body({"content": "hi", "refusal": "no"}, "length"), Refused("no", facts("length"))),
    (body({"content": "hi", "refusal": " "}), Answered("hi", facts())),
    (body({"content": "hi", "refusal": {"odd": 1}}), Answered("hi", facts())),
    (body({"content": "x", "refusal": "n" * 5_000}), Refused("n" * 2_045 + "…", facts())),
    (body({"content": "{"}, "length"), Truncated(77, facts("length"))),
    (body(None, "length"), Truncated(77, facts("length"))),
    (body({}, "MAX_TOKENS"), Truncated(77, facts("MAX_TOKENS"))),
    (body({"content": "x"}, "content_filter"),
     Refused(FILTERED, facts("content_filter"), "content_filter")),
    (body(None, "content_filter: SAFETY"), Refused(FILTERED, facts(None), "content_filter")),
    (body({"content": "half"}, "sensitive"),
     Refused(FILTERED, facts("sensitive"), "content_filter")),
    (body({"content": "half"}, "error"), broken_off("error")),
    (body({"content": "half"}, "network_error"), broken_off("network_error")),
    (body({"content": None}, "tool_calls"), no_answer("tool_calls")),
    (body({"content": None}), no_answer()),
    (body({"content": "", "tool_calls": [{"function": {"name": "f"}}]}, "tool_calls"),
     no_answer("tool_calls")),
    (body({"content": "hi", "tool_calls": [{}]}), Answered("hi", facts())),
    (body({"content": "", "tool_calls": []}), Answered("", facts())),
    (body({"content": [{"type": "text", "text": "hi"}]}), Answered("hi", facts())),
    (body({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                       {"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}),
     Answered("hi", facts())),
    (body({"content": [{"type": "text", "text": "h"}]}, "length"), Truncated(77, facts("length"))),
    (body({"content": [{"type": "image_url"}, "hi", None, {"type": "text", "text": 1}]}),
     no_answer()),
    (body({"content": []}), no_answer()),
    (body({"content": 1}), no_answer()),
    (body(), broken_off()),
    (body("hi"), broken_off()),
    ({"choices": []}, NOTHING),
    ({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}},
     NoAnswer(200, facts(None, usage=Usage(input_tokens=9, output_tokens=0)))),
    ({"choices": [], "usage": None}, NOTHING),
    ({"choices": None}, NOTHING),
    ({"choices": ["hi"]}, NOTHING),
    ({"choices": {"0": {}}}, NOTHING),
    ({"choices": [{"message": {"content": "half"}, "error": {"code": 429}}]}, NOTHING),
    ({"choices": [{"message": {"content": "hi"}, "error": None}]}, Answered("hi", facts(None))),
    (body({"content": "hi"}, error=None), Answered("hi", facts())),
    (body({"content": "hi"}, error={}), Answered("hi", facts())),
    (body({"content": "half"}, error={"code": 502}), Unavailable(502, ran=True)),
    ({"error": {"code": 429}, "choices": []}, Throttled(None)),
    ({"error": {"code": 429, "type": "insufficient_quota"}},
     Rejected("profile", 429, "insufficient_quota")),
    ({"error": {"code": 401}}, Rejected("profile", 401, None)),
    ({"error": {"code": 400, "message": "too long"}}, Rejected("request", 400, None)),
    ({"error": {"code": "invalid_api_key"}}, Rejected("profile", 200, "invalid_api_key")),
    ({"error": {"code": "odd"}}, NOTHING),
    ({"error": {"code": 200}}, NOTHING),
    ({"error": {"code": True}}, NOTHING),
    ({"error": {"code": 429.0}}, NOTHING),
    ({"error": "odd"}, NOTHING),
    (None, NOTHING),
    (True, NOTHING),
    ([], NOTHING),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), ANSWERS)
def test_an_answer_is_read_in_order_refusal_finish_content(document: Any, expected: Reply) -> None:
    assert parse_response(200, {}, json.dumps(document).encode(), 77) == expected


@pytest.mark.parametrize(
    "text", [b"", b"<html>", b'{"choices":[{"mess', b"\xff\xfe", b"[" * 10_000, b'{"a":1}{"b":2}']
)
def test_what_is_no_json_is_no_answer(text: bytes) -> None:
    assert parse_response(200, {}, text, 77) == NOTHING


USAGES: list[tuple[Any, Usage]] = [
    ({"prompt_tokens": 1, "completion_tokens": 0}, Usage(input_tokens=1, output_tokens=0)),
    (
        {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
        Usage(input_tokens=9, output_tokens=2, cached_tokens=8),
    ),
    (
        {
            "prompt_tokens": 9,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cache_write_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
        Usage(input_tokens=9, output_tokens=5, cache_write_tokens=8, reasoning_tokens=3),
    ),
    (  # some servers count what is thought beside the answer
        {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
        Usage(input_tokens=9, output_tokens=5, reasoning_tokens=3),
    ),
    (  # of xAI: the total shows it also where more is answered than thought
        {
            "prompt_tokens": 9,
            "completion_tokens": 5,
            "total_tokens": 17,
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
        Usage(input_tokens=9, output_tokens=8, reasoning_tokens=3),
    ),
    (  # of servers in front of Gemini: thoughts are in the total alone
        {"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 623},
        Usage(input_tokens=20, output_tokens=603),
    ),
    (
        {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 3},
        Usage(input_tokens=9, output_tokens=5),
    ),
    (
        {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": TOKENS_MAX + 1},
        Usage(input_tokens=9, output_tokens=5),
    ),
    ({"prompt_tokens": 9, "total_tokens": 14}, Usage(input_tokens=9)),
    ({"prompt_tokens_details": {"cached_tokens": -1}}, Usage()),
    ({"prompt_tokens_details": 8}, Usage()),
    ({"prompt_tokens": -1, "completion_tokens": 2}, Usage(output_tokens=2)),
    ({"prompt_tokens": True, "completion_tokens": 2.0}, Usage()),
    ({"prompt_tokens": "1", "completion_tokens": TOKENS_MAX + 1}, Usage()),
    ({}, Usage()),
    (None, Usage()),
    ([1, 2], Usage()),
]


@pytest.mark.parametrize(("usage", "expected"), USAGES)
def test_usage_is_believed_only_where_it_can_be_true(usage: Any, expected: Usage) -> None:
    document = json.dumps(body({"content": "hi"}, usage=usage)).encode()

    assert parse_response(200, {}, document, 77) == Answered("hi", facts(usage=expected))


def test_names_are_kept_if_they_are_names() -> None:
    good = json.dumps(body({"content": "hi"}, model="m", id="c-1")).encode()
    bad = json.dumps(body({"content": "hi"}, model="m " * 99, id={"odd": 1})).encode()

    assert parse_response(200, {}, good, 77) == Answered("hi", facts(model="m", request_id="c-1"))
    assert parse_response(200, {"x-request-id": "r-1"}, good, 77) == Answered(
        "hi", facts(model="m", request_id="r-1")
    )
    assert parse_response(200, {"x-request-id": "two words"}, bad, 77) == Answered("hi", facts())


ERRORS: list[tuple[int, Any, Reply]] = [
    (400, {"error": {"code": "context_length_exceeded"}},
     Rejected("request", 400, "context_length_exceeded")),
    (400, {"error": {"code": "prose with the prompt"}}, Rejected("request", 400, None)),
    (400, {"error": {"code": 1113, "type": "x" * 65}}, Rejected("request", 400, None)),
    (400, {"object": "error", "type": "BadRequest"}, Rejected("request", 400, "BadRequest")),
    (400, {"error": {"code": "unsupported_parameter", "param": "max_tokens"}},
     Rejected("profile", 400, "unsupported_parameter")),
    *(
        (status, {"error": {"code": code, "type": kind}}, Rejected("profile", status, code))
        for status, kind, code in (
            (400, "invalid_request_error", "unknown_parameter"),
            (400, "invalid_request_error", "unrecognized_request_argument"),
            (400, "invalid_request_error", "model_decommissioned"),
            (400, "invalid_request_error", "OperationNotSupported"),
            *((429, "billing_error", f"{whose}_limit_exceeded") for whose in
              ("organization_spend", "project_spend", "organization_usage")),
            (429, "billing_error", "credit_balance_exhausted"),
        )
    ),
    *(
        (status, {"error": {"type": "budget_exceeded", "code": str(status)}},
         Rejected("profile", status, "budget_exceeded"))
        for status in (400, 429)
    ),
    (400, {"code": "Client specified an invalid argument",
           "error": "Incorrect API key provided: xa***9. You can obtain an API key from …"},
     Rejected("profile", 400, "invalid_api_key")),
    (400, {"error": {"code": "content_filter"}},
     Refused("the provider's filter stopped the request", CallFacts(), "content_filter")),
    *(
        (400, {"error": {"code": code, "message": "Invalid prompt: your prompt was flagged…"}},
         Refused("the provider's filter stopped the request", CallFacts(), "content_filter"))
        for code in ("invalid_prompt", "bio_policy", "cyber_policy", "data_inspection_failed")
    ),
    (400, {"error": {"code": "invalid_prompt", "message": "Invalid Responses API request"}},
     Rejected("request", 400, "invalid_prompt")),
    (403, {"error": {"code": "misalignment_policy_violation"}},
     Refused("the provider's filter stopped the request", CallFacts(), "content_filter")),
    (403, {"error": {"code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "a…"}}},
     Refused("the provider's filter stopped the request", CallFacts(), "content_filter")),
    (403, {"error": {"code": 403, "metadata": {"reasons": []}}}, Rejected("profile", 403, None)),
    *(
        (403, {"error": {"code": 403, "metadata": {"error_type": kind}}},
         Refused("the provider's filter stopped the request", CallFacts(), "content_filter"))
        for kind in ("content_policy_violation", "refusal")
    ),
    (403, {"error": {"code": 403, "metadata": {"error_type": "permission_denied"}}},
     Rejected("profile", 403, None)),
    (400, {"error": {"message": "Invalid service_tier argument: The requested service tier is not "
                     "allowed for this project.", "type": "invalid_request_error",
                     "param": "service_tier"}},
     Rejected("profile", 400, "service_tier_not_allowed")),
    (400, {"error": {"message": "'response_format' of type 'json_schema' is not supported with "
                     "this model.", "param": "response_format"}},
     Rejected("profile", 400, "no_structured_output")),
    (400, {"error": {"message": "Invalid schema for response_format 'm': In context=('properties', "
                     "''response_format' of type 'json_schema' is not supported with this model')",
                     "param": "response_format"}},
     Rejected("request", 400, None)),
    (402, {}, Rejected("profile", 402, None)),
    (403, {}, Rejected("profile", 403, None)),
    (405, {}, Rejected("profile", 405, None)),
    (406, {}, Rejected("profile", 406, None)),
    (407, {}, Rejected("profile", 407, None)),
    (415, {}, Rejected("profile", 415, None)),
    (418, {}, Unavailable(418, ran=True)),
    (429, [{"error": {"code": "insufficient_quota"}}],
     Rejected("profile", 429, "insufficient_quota")),
    (429, {"error": {"type": "insufficient_quota", "code": "1"}},
     Rejected("profile", 429, "insufficient_quota")),
    (500, {"error": {"code": "insufficient_quota"}}, Unavailable(500, ran=True)),
    (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
     Unavailable(503, ran=False)),
    (503, {"error": {"code": 503, "type": "server_error"}}, Unavailable(503, ran=True)),
    *(
        (503, {"error": {"code": code, "type": "service_unavailable_error"}}, Throttled(None))
        for code in ("server_is_overloaded", "slow_down")
    ),
    (500, {"error": {"code": "slow_down"}}, Unavailable(500, ran=True)),
]  # fmt: skip


@pytest.mark.parametrize(("status", "document", "expected"), ERRORS)
def test_an_error_is_read_by_status_and_by_codes(
    status: int, document: Any, expected: Reply
) -> None:
    assert parse_error(status, {}, json.dumps(document).encode(), NOW) == expected


WAITS: list[tuple[dict[str, str], float | None]] = [
    ({}, None),
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": "0"}, 0.0),
    ({"retry-after": "0.5"}, 0.5),
    ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
    ({"retry-after": "9", "retry-after-ms": "soon"}, 9.0),
    ({"retry-after": "-1"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "1_000"}, None),
    ({"retry-after": "\u0663"}, None),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "1e300"}, RETRY_AFTER_S_MAX),
    ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT"}, 30.0),
    ({"retry-after": "Sat, 21 Nov 2026 09:59:00 GMT"}, 0.0),
    ({"retry-after": "Sat, 21 Nov 2026 12:00:05 -0000"}, 7_205.0),
    ({"retry-after": "Tue, 01 Jan 2030 00:00:00 GMT"}, RETRY_AFTER_S_MAX),
    (
        {"retry-after": "Fri, 01 Jan 2010 00:00:09 GMT", "date": "Fri, 01 Jan 2010 00:00:00 GMT"},
        9.0,
    ),
    ({"retry-after": "tomorrow"}, None),
    ({"retry-after": "5, 10"}, None),
]


@pytest.mark.parametrize(("headers", "expected"), WAITS)
def test_when_to_come_back(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW) == expected


def test_an_answer_cut_within_a_character_is_cut_and_not_unreadable() -> None:
    text = b'{"choices":[{"message":{"content":"caf\\ud83d"},"finish_reason":"%s"}]}'

    assert parse_response(200, {}, text % b"length", 77) == Truncated(77, facts("length"))
    assert parse_response(200, {}, text % b"stop", 77) == Answered("caf\ud83d", facts())
    assert parse_response(200, {}, text.decode().encode("utf-16"), 77) == NOTHING
