"""What an OpenAI-compatible server sent, read as a Reply: pure, and nothing in it is trusted."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic_core import from_json

from answerbus.budget import Usage
from answerbus.limits import REASON_BYTES_MAX
from answerbus.wire import clip
from services.worker.core.reply import (
    Answered,
    CallFacts,
    Refused,
    Rejected,
    Reply,
    Throttled,
    Truncated,
    Unavailable,
)

RETRY_AFTER_S_MAX = 86_400.0  # no request lives longer than a day
TOKENS_MAX = 1_000_000_000  # of one call; a larger count is nonsense and would ruin an account
_NAME = re.compile(r"[\x21-\x7e]{1,128}")  # models, ids and stop reasons as the audit keeps them
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")

# Compatible servers pass on the words of what they stand in front of (Gemini, Mistral, proxies).
_CUT = {"length", "max_tokens", "model_length"}
_FILTERED = {"content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"}
_BROKEN_OFF = {"error", "abort", "insufficient_system_resource"}

_FILTER_CODES = {"content_filter", "content_policy_violation", "moderation_blocked"}
_PROFILE_CODES = {
    # Money is gone, the key is bad, or the profile names what this model does not know: whichever
    # 4xx they come with, the next request would fare no better.
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "account_deactivated",
    "invalid_api_key",
    "model_not_found",
    "unsupported_parameter",
    "unsupported_value",
}
_PROFILE_STATUSES = {401, 402, 403, 404, 405, 410}
_REQUEST_STATUSES = {400, 413, 422}
_OVERLOADED_STATUSES = {503, 529}


def of_answer(status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
    """Reads a 2xx; `limit` is the output limit in tokens that was asked for."""
    document = _json(body)
    match document:
        case {"choices": [{**choice}, *_]}:
            pass
        case _:
            return Unavailable(status, ran=True)
    finish = choice.get("finish_reason")
    facts = CallFacts(
        model=_matching(_NAME, document.get("model")),
        request_id=_request_id(headers) or _matching(_NAME, document.get("id")),
        stop_reason=_matching(_NAME, finish),
        usage=_usage(document.get("usage")),
    )
    match choice.get("message"):
        case {"refusal": str(refusal)} if refusal.strip():
            return Refused(clip(refusal, REASON_BYTES_MAX), facts)
        case {"content": str(content)}:
            return _finished(finish, content, facts, status, limit)
        case _:
            return _finished(finish, None, facts, status, limit)


def of_error(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Reply:
    """Reads any other status; `now` is what a date in `Retry-After` counts from at need."""
    codes = _codes(body)
    code = codes[0] if codes else None
    if status in {400, 403} and not _FILTER_CODES.isdisjoint(codes):
        facts = CallFacts(request_id=_request_id(headers))
        return Refused("the provider's filter stopped the request", facts, "content_filter")
    if status // 100 == 3 or status in _PROFILE_STATUSES:  # a redirect says: wrong base_url
        return Rejected("profile", status, code)
    if status // 100 == 4 and not _PROFILE_CODES.isdisjoint(codes):
        return Rejected("profile", status, code)
    if status in _REQUEST_STATUSES:
        return Rejected("request", status, code)
    wait_s = retry_after_s(headers, now)
    if status == 429 or (status in _OVERLOADED_STATUSES and wait_s is not None):
        return Throttled(wait_s)
    return Unavailable(status, ran=True)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds until the server wants to be asked again, at most a day; None if it said nothing.

    A date counts from the server's own `Date`, so that its clock may be wrong.
    """
    for name, per_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        delay = _number(headers.get(name))
        if delay is not None and delay >= 0:
            return min(delay / per_second, RETRY_AFTER_S_MAX)
    moment = _date(headers.get("retry-after"))
    if moment is None:
        return None
    wait_s = (moment - (_date(headers.get("date")) or now)).total_seconds()
    return min(max(wait_s, 0.0), RETRY_AFTER_S_MAX)


def _finished(
    finish: object, content: str | None, facts: CallFacts, status: int, limit: int
) -> Reply:
    # Gemini's compatible endpoint says `content_filter: SAFETY`.
    word = finish.partition(":")[0].strip().lower() if isinstance(finish, str) else None
    if word in _CUT:
        return Truncated(limit, facts)
    if word in _FILTERED:
        return Refused("the provider's filter stopped the answer", facts, "content_filter")
    if content is None or word in _BROKEN_OFF:
        return Unavailable(status, ran=True)
    return Answered(content, facts)


def _json(body: bytes) -> Any:
    """The document, or None where there is none: cut, HTML, not UTF-8, nested without end."""
    try:
        return from_json(body)
    except ValueError:
        return None


def _codes(body: bytes) -> tuple[str, ...]:
    """The error's `code` and `type`, as far as they are identifiers and no prose."""
    match _json(body):
        case {"error": {**error}} | [{"error": {**error}}, *_] | {**error}:
            named = (_matching(_CODE, error.get(name)) for name in ("code", "type"))
            return tuple(name for name in named if name is not None)
        case _:
            return ()


def _usage(value: Any) -> Usage:
    match value:
        case {**usage}:
            return Usage(
                input_tokens=_tokens(usage.get("prompt_tokens")),
                output_tokens=_tokens(usage.get("completion_tokens")),
            )
        case _:
            return Usage()


def _tokens(value: Any) -> int | None:
    # `type`, since True is an int.
    return value if type(value) is int and 0 <= value <= TOKENS_MAX else None


def _request_id(headers: Mapping[str, str]) -> str | None:
    return _matching(_NAME, headers.get("x-request-id"))


def _matching(pattern: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
