"""What bodies of Anthropic's API say, row by row."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.anthropic import parse_error, parse_response
from services.worker.adapters.providers.apis.response_fields import FAST_BYTES_MAX
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Truncated,
    Unavailable,
)

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
NOTHING = Unavailable(200, ran=True)
DECLINED = "the model declined to answer"


def body(*texts: Any, stop: Any = "end_turn", **rest: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": text} for text in texts]
    return {"content": blocks, "stop_reason": stop, **rest}


def facts(stop_reason: str | None = "end_turn", **rest: Any) -> CallFacts:
    return CallFacts(stop_reason=stop_reason, **rest)


def no_answer(stop_reason: str | None = "end_turn") -> Reply:
    return NoAnswer(200, facts(stop_reason))


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "x"}
TOOL = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
ANSWERS: list[tuple[Any, Reply]] = [
    (body("hi"), Answered("hi", facts())),
    (body("h", "i"), Answered("hi", facts())),
    (body(), Answered("", facts())),
    (body("hi", stop="stop_sequence"), Answered("hi", facts("stop_sequence"))),
    ({"content": [THOUGHT, {"type": "text", "text": "hi"}], "stop_reason": "end_turn"},
     Answered("hi", facts())),
    ({"content": [THOUGHT], "stop_reason": "end_turn"}, no_answer()),
    ({"content": [TOOL], "stop_reason": "end_turn"}, no_answer()),
    ({"content": ["hi", None, {"type": "text", "text": 1}], "stop_reason": "end_turn"},
     no_answer()),
    (body("{", stop="max_tokens"), Truncated(77, facts("max_tokens"))),
    (body(stop="model_context_window_exceeded"),
     Truncated(77, facts("model_context_window_exceeded"))),
    (body("half", stop="refusal"), Refused(DECLINED, facts("refusal"))),
    (body(stop="refusal", stop_details={"category": "bio", "explanation": "no"}),
     Refused("no", facts("refusal"), "bio")),
    (body(stop="refusal", stop_details={"category": "two words", "explanation": " "}),
     Refused(DECLINED, facts("refusal"))),
    (body(stop="refusal", stop_details={"category": None, "explanation": "n" * 5_000}),
     Refused("n" * 2_045 + "…", facts("refusal"))),
    (body(stop="refusal", stop_details="odd"), Refused(DECLINED, facts("refusal"))),
    (body("hi", stop="pause_turn"), no_answer("pause_turn")),
    (body("hi", stop="tool_use"), no_answer("tool_use")),
    (body("hi", stop=None), no_answer(None)),
    (body("hi", stop="a new word"), no_answer(None)),
    (body("hi", stop=["end_turn"]), no_answer(None)),
    ({"content": "hi", "stop_reason": "end_turn"}, NOTHING),
    ({"type": "error", "error": {"type": "a_new_word"}}, NOTHING),
    (None, NOTHING),
    ([], NOTHING),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), ANSWERS)
def test_an_answer_is_read_in_order_stop_reason_content(document: Any, expected: Reply) -> None:
    assert parse_response(200, {}, json.dumps(document).encode(), 77) == expected


USAGES: list[tuple[Any, Usage]] = [
    ({"input_tokens": 1, "output_tokens": 0}, Usage(input_tokens=1, output_tokens=0)),
    ({"input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300,
      "output_tokens": 4},
     Usage(input_tokens=321, output_tokens=4, cached_tokens=20, cache_write_tokens=300)),
    ({"input_tokens": 1, "cache_creation_input_tokens": 300, "output_tokens": 4,
      "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 0},
      "output_tokens_details": {"thinking_tokens": 3}},
     Usage(input_tokens=301, output_tokens=4, cache_write_tokens=300, cache_write_1h_tokens=0,
           reasoning_tokens=3)),
    ({"input_tokens": 1, "cache_creation_input_tokens": -300, "output_tokens": 4},
     Usage(output_tokens=4)),  # so much input was read is not known
    ({"input_tokens": 1, "cache_read_input_tokens": None, "output_tokens": 4},
     Usage(input_tokens=1, output_tokens=4)),
    ({"input_tokens": -1, "cache_read_input_tokens": 20}, Usage(cached_tokens=20)),
    ({"input_tokens": True, "output_tokens": "4"}, Usage()),
    (None, Usage()),
]  # fmt: skip


@pytest.mark.parametrize(("usage", "expected"), USAGES)
def test_usage_adds_what_a_cache_served(usage: Any, expected: Usage) -> None:
    document = json.dumps(body("hi", usage=usage)).encode()

    assert parse_response(200, {}, document, 77) == Answered("hi", facts(usage=expected))


def test_a_count_of_hundreds_of_digits_is_not_one_that_is_left_out() -> None:
    """Beside a long answer digits are not all read."""
    usage = {"input_tokens": 1, "cache_read_input_tokens": 10**300, "output_tokens": 4}
    long = "x" * FAST_BYTES_MAX
    document = json.dumps(body(long, usage=usage)).encode()

    assert parse_response(200, {}, document, 77) == Answered(
        long, facts(usage=Usage(output_tokens=4))
    )


def test_names_are_kept_if_they_are_names() -> None:
    text = json.dumps(body("hi", model="m", id="msg_1")).encode()

    assert parse_response(200, {}, text, 77) == Answered("hi", facts(model="m", request_id="msg_1"))
    assert parse_response(200, {"request-id": "req_1"}, text, 77) == Answered(
        "hi", facts(model="m", request_id="req_1")
    )


ERRORS: list[tuple[int, Any, Reply]] = [
    (400, {"type": "invalid_request_error", "message": "Your credit balance is too low to go on"},
     Rejected("profile", 400, "billing_error")),
    *(
        (400, {"type": "invalid_request_error", "message": f"You have reached your specified "
               f"{whose}API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."},
         Rejected("profile", 400, "billing_error"))
        for whose in ("", "workspace ")
    ),
    (400, {"type": "invalid_request_error", "message": "'m' does not support output format."},
     Rejected("profile", 400, "no_structured_output")),
    *(
        (400, {"type": "invalid_request_error", "message": f"output_config.schema: {quoted}"},
         Rejected("request", 400, "invalid_request_error"))
        for quoted in ("Your credit balance is too low", "'m' does not support output format")
    ),
    (400, {"type": "invalid_request_error", "message":
           "Output blocked by content filtering policy"},
     Refused("the provider's filter stopped the answer", CallFacts(), "content_filter")),
    (400, {"type": "invalid_request_error", "message": "prompt is too long"},
     Rejected("request", 400, "invalid_request_error")),
    (400, {"type": "prose with the prompt"}, Rejected("request", 400, None)),
    (400, "text", Rejected("request", 400, None)),
]  # fmt: skip


@pytest.mark.parametrize(("status", "error", "expected"), ERRORS)
def test_a_rejection_is_the_profiles_where_no_request_would_fare_better(
    status: int, error: Any, expected: Reply
) -> None:
    assert parse_error(status, {}, json.dumps({"error": error}).encode(), NOW) == expected
