"""Reads a response of OpenAI's Responses API as a Reply, trusting nothing in it: pure."""

from collections.abc import Mapping
from typing import Any

from answerbus.budget import Usage
from answerbus.limits import REASON_BYTES_MAX
from answerbus.wire import clip
from services.worker.adapters.providers.apis.openai_replies import (
    FILTER_CODES,
    NO_ROOM,
    PROFILE_CODES,
    charged,
    error_inside,
)
from services.worker.adapters.providers.apis.response_fields import (
    code_in,
    json_in,
    name_in,
    openai_usage,
    retry_after_s,
    tier_in,
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

Members = Mapping[Any, Any]  # of a JSON object
VALUES_MAX = 80_000  # of a response, which repeats the schema that was asked for

_POLICIES = {*FILTER_CODES, "invalid_prompt", "image_content_policy_violation"}
_THROTTLED = {*NO_ROOM, "rate_limit_exceeded"}
_ANSWERING = (None, "final_answer")  # phases; models comment on their work in others
_FILTERED = "the provider's filter stopped the answer"


def parse_response(status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
    """Reads a 2xx; `limit` is the output limit in tokens that was asked for."""
    document = json_in(body, VALUES_MAX)
    match document:
        case {"status": str(state), **response}:
            pass
        case {"error": {**_said}, **response}:
            state = ""
        case _:
            return Unavailable(status, ran=True)
    reason = _member(response.get("incomplete_details"), "reason")
    facts = CallFacts(
        model=name_in(response.get("model")),
        request_id=name_in(headers.get("x-request-id")) or name_in(response.get("id")),
        stop_reason=name_in(reason) or name_in(state),
        usage=_usage(response.get("usage")),
        service_tier=tier_in(response.get("service_tier")),
    )
    match state, reason:
        case "failed", _:
            code = code_in(_member(response.get("error"), "code"))
            if code in _THROTTLED:
                return charged(Throttled(retry_after_s(headers, None)), status, facts)
            return charged(_failed(code, facts, status), status, facts)
        case "incomplete", "max_output_tokens":
            return Truncated(limit, facts)
        case "incomplete", "content_filter":
            return Refused(_FILTERED, facts, "content_filter")
        case "completed", _:
            return _completed(response.get("output"), facts, status)
        case _ if isinstance(error := document.get("error"), dict) and error:  # of a gateway
            return error_inside(error, status, headers, document, facts)
        case _:
            return Unavailable(status, ran=True, facts=facts)


def _failed(code: str | None, facts: CallFacts, status: int) -> Reply:
    """A failure inside of HTTP 200."""
    if code == "data_residency_mismatch" or code in PROFILE_CODES:
        return Rejected("profile", status, code)
    if code in _POLICIES:
        return Refused("the provider's filter stopped the request", facts, code)
    return Unavailable(status, ran=True, facts=facts)


def _completed(output: Any, facts: CallFacts, status: int) -> Reply:
    pieces = [
        piece
        for item in _listed(output)
        if item.get("type") == "message" and item.get("phase") in _ANSWERING
        for piece in _listed(item.get("content"))
    ]
    for piece in pieces:
        refusal = piece.get("refusal")
        if isinstance(refusal, str) and refusal.strip():
            return Refused(clip(refusal, REASON_BYTES_MAX), facts)
    texts = [piece["text"] for piece in pieces if isinstance(piece.get("text"), str)]
    if not texts:
        return NoAnswer(status, facts)  # a tool call, thoughts or commentary alone
    return Answered("".join(texts), facts)


def _listed(value: Any) -> list[Members]:
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _usage(value: Any) -> Usage:
    return openai_usage(
        _member(value, "input_tokens"),
        _member(value, "input_tokens_details"),
        _member(value, "output_tokens"),
        _member(value, "output_tokens_details"),
        _member(value, "total_tokens"),
    )
