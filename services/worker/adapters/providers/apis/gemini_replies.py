"""Reads a response of the Gemini API as a Reply, trusting nothing in it: pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.errors_inside import true_status
from services.worker.adapters.providers.apis.response_fields import (
    NO_STRUCTURED_OUTPUT,
    RETRY_AFTER_S_MAX,
    code_in,
    json_in,
    name_in,
    of_status,
    retry_after_s,
    tokens_in,
    tokens_sum,
)
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    Refused,
    Rejected,
    Reply,
    Truncated,
    Unavailable,
)

Members = Mapping[Any, Any]  # of a JSON object

_CUT = {"MAX_TOKENS", "CONTINUATION"}
_FILTERED = {
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR"),
}
_PROFILE_CODES = {
    # With any 4xx: the next request would fare no better.
    "API_KEY_INVALID",
    "API_KEY_SERVICE_BLOCKED",
    "BILLING_DISABLED",
    "CONSUMER_SUSPENDED",
    "FAILED_PRECONDITION",  # the country, or a tier that is not free there
    "SERVICE_DISABLED",
}
_NO_JSON_MODE = re.compile(r"json mode is not enabled", re.IGNORECASE)
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


def of_answer(status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
    """Reads a 2xx; `limit` is the output limit in tokens that was asked for."""
    parsed = json_in(body)
    told = true_status(_error(parsed))
    if told is not None:
        return of_error(told, headers, body, None)
    match parsed:
        case {**document}:
            pass
        case _:
            return Unavailable(status, ran=True)
    match document.get("candidates"):
        case [{**candidate}, *_]:
            finish = name_in(candidate.get("finishReason"))
            return _finished(finish, candidate, _facts(document, finish), status, limit)
        case _:
            return _blocked(document, status)


def of_error(status: int, headers: Mapping[str, str], body: bytes, now: datetime | None) -> Reply:
    """Reads any other status; `now` is what a date in `Retry-After` counts from at need."""
    error = _error(json_in(body))
    details = _details(error)
    codes = tuple(
        code
        for code in (
            *(code_in(detail.get("reason")) for detail in details),
            code_in(error.get("status")),
        )
        if code
    )
    words = error.get("message")
    if status == 400 and isinstance(words, str) and _NO_JSON_MODE.search(words):
        return Rejected("profile", status, NO_STRUCTURED_OUTPUT)
    if status == 429 and any(map(_is_for_long, _violations(details))):
        return Rejected("profile", status, codes[0] if codes else None)
    told_s = retry_after_s(headers, now)
    return of_status(status, codes, _delay_s(details) if told_s is None else told_s, _PROFILE_CODES)


def _finished(
    finish: str | None, candidate: Members, facts: CallFacts, status: int, limit: int
) -> Reply:
    if finish in _CUT:
        return Truncated(limit, facts)
    if finish in _FILTERED:
        return Refused("the provider's filter stopped the answer", facts, finish)
    parts = _parts(candidate.get("content"))
    texts = [
        part["text"]
        for part in parts
        if isinstance(part.get("text"), str) and part.get("thought") is not True
    ]
    if finish != "STOP" or (parts and not texts):
        return Unavailable(status, ran=True)  # a malformed answer, a tool call, a word that is new
    return Answered("".join(texts), facts)


def _blocked(document: Members, status: int) -> Reply:
    match document.get("promptFeedback"):
        case {"blockReason": str(reason)}:
            facts = _facts(document, None)
            return Refused("the provider's filter stopped the request", facts, code_in(reason))
        case _:
            return Unavailable(status, ran=True)


def _parts(content: Any) -> list[Members]:
    match content:
        case {"parts": [*parts]}:
            return [part for part in parts if isinstance(part, dict)]
        case _:
            return []


def _facts(document: Members, finish: str | None) -> CallFacts:
    return CallFacts(
        model=name_in(document.get("modelVersion")),
        request_id=name_in(document.get("responseId")),
        stop_reason=finish,
        usage=_usage(document.get("usageMetadata")),
    )


def _usage(value: Any) -> Usage:
    match value:
        case {**usage}:
            # Thoughts are paid for, and counted beside the answer; cut in them, there is none.
            written = [usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount")]
            written.sort(key=lambda count: count is None)
            return Usage(
                input_tokens=tokens_in(usage.get("promptTokenCount")),
                output_tokens=tokens_sum(*written),
                cached_tokens=tokens_in(usage.get("cachedContentTokenCount")) or None,
            )
        case _:
            return Usage()


def _error(document: Any) -> Members:
    match document:
        case {"error": {**error}} | [{"error": {**error}}, *_]:
            return error
        case _:
            return {}


def _details(error: Members) -> list[Members]:
    details = error.get("details")
    listed = details if isinstance(details, list) else []
    return [detail for detail in listed if isinstance(detail, dict)]


def _violations(details: Sequence[Members]) -> Iterator[Members]:
    for detail in details:
        listed = detail.get("violations")
        for violation in listed if isinstance(listed, list) else []:
            if isinstance(violation, dict):
                yield violation


def _is_for_long(violation: Members) -> bool:
    """Whether a quota is that of a day, or is none at all: waiting for it would be in vain."""
    quota, value = violation.get("quotaId"), violation.get("quotaValue")
    return value == "0" or (isinstance(quota, str) and "PerDay" in quota)


def _delay_s(details: Sequence[Members]) -> float | None:
    """Seconds, as the detail `RetryInfo` tells them."""
    for detail in details:
        delay = detail.get("retryDelay")
        match = _DELAY.fullmatch(delay) if isinstance(delay, str) else None
        if match:
            return min(float(match[1]), RETRY_AFTER_S_MAX)
    return None
