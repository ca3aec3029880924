"""Reads a response of Chat Completions as a Reply, trusting nothing in it: pure."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from answerbus.budget import Usage
from answerbus.limits import REASON_BYTES_MAX
from answerbus.wire import clip
from services.worker.adapters.providers.apis.errors_inside import true_status
from services.worker.adapters.providers.apis.response_fields import (
    NO_STRUCTURED_OUTPUT,
    code_in,
    json_in,
    name_in,
    openai_usage,
    parse_status,
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

# Compatible servers pass on the words of what they are in front of (Gemini, Mistral, GLM, proxies).
_CUT = {"length", "max_tokens", "model_length"}
_FILTERED = {
    *("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"),
    "sensitive",
}
_BROKEN_OFF = {"error", "abort", "insufficient_system_resource", "network_error"}

FILTER_CODES = {
    *("content_filter", "content_policy_violation", "moderation_blocked"),
    *("bio_policy", "cyber_policy", "misalignment_policy_violation"),
    "data_inspection_failed",  # of Qwen, at its maker's
}
_FLAGGED = "Invalid prompt: your prompt was flagged"  # others call a malformed one `invalid_prompt`
PROFILE_CODES = {
    # Money is gone, the key is bad, or the profile names what this model does not know. With any
    # 4xx: the next request would fare no better.
    *("insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached"),
    *("organization_spend_limit_exceeded", "project_spend_limit_exceeded"),
    *("organization_usage_limit_exceeded", "billing_not_active", "account_deactivated"),
    "budget_exceeded",  # of the key, at a LiteLLM proxy
    *("invalid_api_key", "model_not_found", "model_decommissioned"),
    "OperationNotSupported",  # of Azure: a deployment whose model does not speak this API
    *("unsupported_parameter", "unsupported_value"),
    *("unknown_parameter", "unrecognized_request_argument"),
}
# One request asks for more tokens than a minute allows: only this request is refused, and always.
_REQUEST_TOO_LARGE = "request_too_large"
_OVER_THE_MINUTE = "Request too large for"
_UNFIT = "json_validate_failed"  # Groq's 400 where its model wrote what breaks the schema
# What Groq gives then in the place of what was written, where the output limit cut it.
_CUT_UNFIT = "max completion tokens reached before generating a valid document"
NO_ROOM = {"server_is_overloaded", "slow_down"}  # for a call of this model of OpenAI's now
_FULL = {(498, "capacity_exceeded"), *((503, code) for code in NO_ROOM)}  # 498: Groq's flex tier
_BAD_KEY = "Incorrect API key provided"  # xAI's 400, which has no code
_NO_TIER = "service_tier_not_allowed"
_QUEUE_IS_FULL = "The request queue is full."  # SGLang's 503; the request has not begun
_CRASHED = "The model has crashed"  # LM Studio's 400, which loads the model again for the next call
_NO_MONEY = 412  # of the account, at Fireworks and Portkey
_DENIED = 446  # Portkey's status for a request or an answer that its guardrails stopped
_LOADING = "unavailable_error"  # of llama.cpp's server, with 503 while its model loads
# How the answer to `json_schema` begins, which has no code; other messages quote the schema.
_NO_SCHEMAS = re.compile(
    r"(?:Invalid parameter: )?'[\w.]+' of type 'json_schema' is not supported with this model"
)


def parse_response(status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
    """Reads a 2xx; `limit` is the output limit in tokens that was asked for."""
    document = json_in(body)
    match document:
        case {"error": {**error}} if error:
            return error_inside(error, status, headers, document, _facts(document, None, headers))
        case {"choices": [{**choice}, *_]}:
            pass
        case {"choices": [], "usage": {**_used}}:
            return NoAnswer(status, _facts(document, None, headers))
        case _:
            return Unavailable(status, ran=True)
    finish = choice.get("finish_reason")
    facts = _facts(document, finish, headers)
    if isinstance(choice.get("error"), dict) and choice["error"]:
        return Unavailable(status, ran=True, facts=facts)  # its content is what came before
    match choice.get("message"):
        case {"refusal": str(refusal)} if refusal.strip():
            return Refused(clip(refusal, REASON_BYTES_MAX), facts)
        case {**members}:
            return _finished(finish, members, facts, status, limit)
        case _:
            return _finished(finish, None, facts, status, limit)


def parse_error(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime | None
) -> Reply:
    """Reads any other status; `now` is what a date in `Retry-After` counts from at need."""
    return _error(status, headers, json_in(body), now)


def _error(status: int, headers: Mapping[str, str], document: Any, now: datetime | None) -> Reply:
    codes = _codes(document)
    is_filtered = (
        not FILTER_CODES.isdisjoint(codes)
        or _message(document).startswith(_FLAGGED)
        or _is_flagged(document)
    )
    if (status in {400, 403} and is_filtered) or status == _DENIED:
        facts = CallFacts(request_id=_request_id(headers))
        return Refused("the provider's filter stopped the request", facts, "content_filter")
    if status == 400 and _UNFIT in codes:
        facts = CallFacts(request_id=_request_id(headers))
        return Truncated(0, facts) if _is_cut(document) else NoAnswer(status, facts)
    if status == 400 and (code := _code_of_profile(document)) is not None:
        return Rejected("profile", status, code)
    if status == 429 and _message(document).startswith(_OVER_THE_MINUTE):
        return Rejected("request", status, _REQUEST_TOO_LARGE)
    if status == _NO_MONEY:
        return Rejected("profile", status, codes[0] if codes else None)
    wait_s = retry_after_s(headers, now)
    if any((status, code) in _FULL for code in codes) or (
        status == 503 and _message(document) == _QUEUE_IS_FULL
    ):
        return Throttled(wait_s)
    if status == 400 and _message(document).startswith(_CRASHED):
        return Unavailable(status, ran=True)
    if status == 503 and wait_s is None and _LOADING in codes:
        return Unavailable(status, ran=False)
    return parse_status(status, codes, wait_s, PROFILE_CODES)


def _code_of_profile(document: Any) -> str | None:
    """Our word for what no request of the profile gets, where a 400 has no code for it."""
    words, param = _message(document), _param(document)
    if words.startswith(_BAD_KEY):
        return "invalid_api_key"
    if param in {"response_format", "text.format"} and _NO_SCHEMAS.match(words):
        return NO_STRUCTURED_OUTPUT
    return _NO_TIER if param == "service_tier" else None  # one that the project does not allow


def _facts(document: Members, finish: object, headers: Mapping[str, str]) -> CallFacts:
    return CallFacts(
        model=name_in(document.get("model")),
        request_id=_request_id(headers) or name_in(document.get("id")),
        stop_reason=name_in(finish),
        usage=_usage(document.get("usage")),
        service_tier=tier_in(document.get("service_tier")),
    )


def _finished(
    finish: object, message: Members | None, facts: CallFacts, status: int, limit: int
) -> Reply:
    # Gemini's compatible endpoint says `content_filter: SAFETY`.
    word = finish.partition(":")[0].strip().lower() if isinstance(finish, str) else None
    if word in _CUT:
        return Truncated(limit, facts)
    if word in _FILTERED:
        return Refused("the provider's filter stopped the answer", facts, "content_filter")
    if word in _BROKEN_OFF or message is None:
        return Unavailable(status, ran=True, facts=facts)
    content = _content(message)
    if content is None:
        return NoAnswer(status, facts)  # a tool call, or thoughts alone
    return Answered(content, facts)


def _content(message: Members) -> str | None:
    """The text of a message; None where there is none, such as in a call of a tool."""
    match message.get("content"):
        case str(content):
            return content if content or not message.get("tool_calls") else None
        case [*parts]:  # Mistral's models that think, and servers that pass on what they get
            texts = [text for part in parts if (text := _text(part)) is not None]
            return "".join(texts) if texts else None
        case _:
            return None


def _text(part: Any) -> str | None:
    """The text of a part of the answer; None for thoughts and for what is not text."""
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return None


def error_inside(
    error: Members, status: int, headers: Mapping[str, str], document: Any, facts: CallFacts
) -> Reply:
    """An error under a status of success, that names the true one, or a code of the profile."""
    real_status = true_status(error)
    if real_status is not None:
        return charged(_error(real_status, headers, document, None), real_status, facts)
    if named := next((code for code in _codes(document) if code in PROFILE_CODES), None):
        return charged(Rejected("profile", status, named), status, facts)
    return charged(Unavailable(status, ran=True), status, facts)


def charged(reply: Reply, status: int, facts: CallFacts) -> Reply:
    """The reply for an error, counted with its usage where that shows that a model has written."""
    if not facts.usage.output_tokens:
        return reply
    if isinstance(reply, Refused | Truncated | NoAnswer | Unavailable):
        return replace(reply, facts=facts)
    return Unavailable(status, ran=True, facts=facts)


def _codes(document: Any) -> tuple[str, ...]:
    """The error's `code` and `type`, as far as they are identifiers and no prose."""
    match document:
        case {"error": {**error}} | [{"error": {**error}}, *_] | {**error}:
            named = (code_in(error.get(name)) for name in ("code", "type"))
            return tuple(name for name in named if name is not None)
        case _:
            return ()


def _is_flagged(document: Any) -> bool:
    """OpenRouter's sign that a filter or a maker stopped a request; its code is the status."""
    match document:
        case {"error": {"metadata": {"flagged_input": _, "reasons": [_, *_]}}}:
            return True
        case {"error": {"metadata": {"error_type": "content_policy_violation" | "refusal"}}}:
            return True
        case _:
            return False


def _is_cut(document: Any) -> bool:
    match document:
        case {"error": {"failed_generation": str(words)}}:
            return words == _CUT_UNFIT
        case _:
            return False


def _message(document: Any) -> str:
    match document:
        case {"error": {"message": str(words)} | str(words)}:
            return words
        case {"object": "error", "message": str(words)}:  # of SGLang
            return words
        case _:
            return ""


def _param(document: Any) -> str:
    """The parameter that an error is about."""
    match document:
        case {"error": {"param": str(name)}}:
            return name
        case _:
            return ""


def _usage(value: Any) -> Usage:
    match value:
        case {**usage}:
            return openai_usage(
                usage.get("prompt_tokens"),
                usage.get("prompt_tokens_details"),
                usage.get("completion_tokens"),
                usage.get("completion_tokens_details"),
                usage.get("total_tokens"),
            )
        case _:
            return Usage()


def _request_id(headers: Mapping[str, str]) -> str | None:
    return name_in(headers.get("x-request-id"))
