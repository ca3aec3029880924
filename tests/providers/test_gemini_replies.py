"""What bodies of the Gemini API say, row by row."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from google.genai import types

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.gemini import parse_error, parse_response
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
UNASKED = "the provider's filter stopped the request"


def body(*parts: Any, finish: Any = "STOP", **rest: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}], **rest}


def text(reply: Any, **rest: Any) -> dict[str, Any]:
    return {"text": reply, **rest}


def facts(stop_reason: str | None = "STOP", **rest: Any) -> CallFacts:
    return CallFacts(stop_reason=stop_reason, **rest)


def no_answer(stop_reason: str | None = "STOP") -> Reply:
    return NoAnswer(200, facts(stop_reason))


CALL = {"functionCall": {"name": "f", "args": {}}}
ANSWERS: list[tuple[Any, Reply]] = [
    (body(text("hi")), Answered("hi", facts())),
    (body(text("h"), text("i")), Answered("hi", facts())),
    (body(text("hm", thought=True), text("hi")), Answered("hi", facts())),
    (body(text("hi"), CALL), Answered("hi", facts())),
    (body(), Answered("", facts())),
    ({"candidates": [{"finishReason": "STOP"}]}, Answered("", facts())),
    ({"candidates": [*body(text("a"))["candidates"], *body(text("b"))["candidates"]]},
     Answered("a", facts())),
    (body(text("hm", thought=True)), no_answer()),
    (body(CALL), no_answer()),
    (body(text(1)), no_answer()),
    (body(text("{"), finish=None), no_answer(None)),
    (body(text("{"), finish=["STOP"]), no_answer(None)),
    (body(text("{"), finish="A_NEW_WORD"), no_answer("A_NEW_WORD")),
    ({"candidates": []}, NOTHING),
    ({"candidates": ["hi"]}, NOTHING),
    ({"promptFeedback": {"blockReason": "SAFETY"}}, Refused(UNASKED, facts(None), "SAFETY")),
    ({"candidates": [], "promptFeedback": {"blockReason": "two words"}},
     Refused(UNASKED, facts(None))),
    ({"promptFeedback": {}}, NOTHING),
    ({"promptFeedback": {}, "usageMetadata": {"promptTokenCount": 9, "thoughtsTokenCount": 2}},
     NoAnswer(200, facts(None, usage=Usage(input_tokens=9, output_tokens=2, reasoning_tokens=2)))),
    ({"candidates": [], "usageMetadata": {}}, no_answer(None)),
    ({"error": {"code": 1}}, NOTHING),
    (None, NOTHING),
    ([], NOTHING),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), ANSWERS)
def test_an_answer_is_read_in_order_block_finish_content(document: Any, expected: Reply) -> None:
    assert parse_response(200, {}, json.dumps(document).encode(), 77) == expected


REFUSED = [
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR"),
]
NO_ANSWER = [
    *("FINISH_REASON_UNSPECIFIED", "OTHER", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"),
    *("IMAGE_OTHER", "NO_IMAGE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
    *("MISSING_THOUGHT_SIGNATURE", "ESCALATION", "PUP_LIMITED_DISABLED"),
]
FINISHES: dict[str, Reply] = {
    "STOP": Answered("{", facts()),
    "MAX_TOKENS": Truncated(77, facts("MAX_TOKENS")),
    "CONTINUATION": Truncated(77, facts("CONTINUATION")),
    **{word: Refused(FILTERED, facts(word), word) for word in REFUSED},
    **{word: no_answer(word) for word in NO_ANSWER},
}


def test_every_finish_reason_of_the_sdk_has_its_reply() -> None:
    """A word that a new version brings must be looked at, and entered above."""
    words = [str(reason.value) for reason in types.FinishReason]

    replies = {
        word: parse_response(200, {}, json.dumps(body(text("{"), finish=word)).encode(), 77)
        for word in words
    }

    assert replies == FINISHES


USAGES: list[tuple[Any, Usage]] = [
    ({"promptTokenCount": 1, "candidatesTokenCount": 2}, Usage(input_tokens=1, output_tokens=2)),
    ({"promptTokenCount": 1, "candidatesTokenCount": 2, "thoughtsTokenCount": 30},
     Usage(input_tokens=1, output_tokens=32, reasoning_tokens=30)),
    ({"promptTokenCount": 1, "thoughtsTokenCount": 30},
     Usage(input_tokens=1, output_tokens=30, reasoning_tokens=30)),
    ({"promptTokenCount": 1}, Usage(input_tokens=1)),
    ({"promptTokenCount": 9, "totalTokenCount": 9}, Usage(input_tokens=9, output_tokens=0)),
    ({"promptTokenCount": 9, "totalTokenCount": 12}, Usage(input_tokens=9, output_tokens=3)),
    ({"promptTokenCount": 9, "totalTokenCount": 8}, Usage(input_tokens=9)),
    ({"totalTokenCount": 8}, Usage()),
    ({"promptTokenCount": 9, "totalTokenCount": 12, "thoughtsTokenCount": -3},
     Usage(input_tokens=9)),
    ({"promptTokenCount": 9, "cachedContentTokenCount": 8}, Usage(input_tokens=9, cached_tokens=8)),
    ({"promptTokenCount": -1, "candidatesTokenCount": "2"}, Usage()),
    (None, Usage()),
]  # fmt: skip


@pytest.mark.parametrize(("usage", "expected"), USAGES)
def test_usage_adds_thoughts(usage: Any, expected: Usage) -> None:
    document = json.dumps(body(text("hi"), usageMetadata=usage)).encode()

    assert parse_response(200, {}, document, 77) == Answered("hi", facts(usage=expected))


def quota(**violation: str) -> dict[str, Any]:
    failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
    return {"error": {"status": "RESOURCE_EXHAUSTED", "details": [failure]}}


ERRORS: list[tuple[int, Any, Reply]] = [
    (429, quota(quotaId="GenerateRequestsPerMinutePerProject", quotaValue="10"), Throttled(None)),
    (429, quota(quotaId="GenerateRequestsPerDayPerProject", quotaValue="10"),
     Rejected("profile", 429, "RESOURCE_EXHAUSTED")),
    (429, quota(quotaId="GenerateRequestsPerMinutePerProject", quotaValue="0"),
     Rejected("profile", 429, "RESOURCE_EXHAUSTED")),
    *(
        (429, {"error": {"message": words, "status": "RESOURCE_EXHAUSTED"}},
         Rejected("profile", 429, "RESOURCE_EXHAUSTED"))
        for words in (
            "Your billing account has exceeded its monthly spending cap. Please go to AI Studio",
            "Your project has exceeded its monthly spending cap. Please go to AI Studio",
            "Your prepayment credits are depleted. Please go to AI Studio",
        )
    ),
    (429, {"error": {"message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}},
     Throttled(None)),
    (400, {"error": {"message": "JSON mode is not enabled for models/m"}},
     Rejected("profile", 400, "no_structured_output")),
    (400, {"error": {"message": "response_json_schema.properties[JSON mode is not enabled]: no",
                     "status": "INVALID_ARGUMENT"}},
     Rejected("request", 400, "INVALID_ARGUMENT")),
    (400, {"error": {"status": "FAILED_PRECONDITION"}},
     Rejected("profile", 400, "FAILED_PRECONDITION")),
    (400, {"error": {"message": "The specified schema has too many states"}},
     Rejected("request", 400, None)),
    (429, {"error": {"details": [{"retryDelay": "soon"}, {"retryDelay": "0.25s"}]}},
     Throttled(0.25)),
    (429, {"error": {"details": "odd"}}, Throttled(None)),
]  # fmt: skip


@pytest.mark.parametrize(("status", "document", "expected"), ERRORS)
def test_an_error_is_read_by_status_and_by_details(
    status: int, document: Any, expected: Reply
) -> None:
    assert parse_error(status, {}, json.dumps(document).encode(), NOW) == expected
