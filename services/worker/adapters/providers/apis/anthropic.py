"""Anthropic's Messages API, and every server that speaks it: pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import quote

from answerbus.budget import Usage
from answerbus.limits import REASON_BYTES_MAX
from answerbus.wire import clip
from services.worker.adapters.providers.apis import preflight
from services.worker.adapters.providers.apis.api import HttpRequest, Preflight
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.errors_inside import true_status
from services.worker.adapters.providers.apis.response_fields import (
    NO_STRUCTURED_OUTPUT,
    code_in,
    json_in,
    name_in,
    parse_status,
    retry_after_s,
    tier_in,
    tokens_in,
    tokens_sum,
)
from services.worker.core.attempt.prompt import Prompt
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
from services.worker.core.attempt.turn import Turn
from services.worker.ports.provider import NotReady, Ready

if TYPE_CHECKING:  # the SDK's types say what a body may hold; the SDK itself is not loaded
    from anthropic.types import CacheControlEphemeralParam, MessageParam, OutputConfigParam
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

ANTHROPIC_BASE_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2026-10-21"  # of the API, as its SDK names it
MODELS_LISTED_MAX = 1000  # the largest page there is
# For five minutes where no other time is given.
CACHE: "CacheControlEphemeralParam" = {"type": "ephemeral"}
CACHE_FOR_HOUR: "CacheControlEphemeralParam" = {"type": "ephemeral", "ttl": "1h"}
LISTING = HttpRequest("GET", f"/v1/models?limit={MODELS_LISTED_MAX}")
_CUT = {"max_tokens", "model_context_window_exceeded"}
_FINISHED = {"end_turn", "stop_sequence"}
_REFUSED = "the model declined to answer"
_FILTERED = "Output blocked by content filtering policy"  # a 400 after the model has written
_PROFILE_CODES = {
    # With any 4xx: the next request would fare no better.
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "claude_code_key_creator_not_member",
    "cmek_key_disabled",
    "cmek_key_network_blocked",
    "contract_spend_limit_reached",
    "enforced_spend_limit_reached",
    "organization_on_hold",
    "organization_type_not_supported",
    "parent_organization_required",
    "workspace_human_review_disabled",
}
# A 400 of the profile and not of the request; only the beginning of the message shows it. The rest
# may quote the request.
_PROFILE_WORDS = {
    re.compile("Your credit balance is too low"): "billing_error",
    re.compile("You have reached your specified (?:workspace )?API usage limits"): "billing_error",
    re.compile(r"'\S+' does not support output format"): NO_STRUCTURED_OUTPUT,
}


def parse_response(status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
    """Reads a 2xx; `limit` is the output limit in tokens that was asked for."""
    document = json_in(body)
    match document:
        case {"error": {**error}} if (real_status := true_status(error)) is not None:
            return _error(real_status, headers, document, None)
        case {"content": [*blocks], **message}:
            pass
        case _:
            return Unavailable(status, ran=True)
    stop = message.get("stop_reason")
    facts = CallFacts(
        model=name_in(message.get("model")),
        request_id=_request_id(headers) or name_in(message.get("id")),
        stop_reason=name_in(stop),
        usage=_usage(message.get("usage")),
        service_tier=_tier(message.get("usage")),
    )
    if stop == "refusal":
        return _refused(message.get("stop_details"), facts)
    if facts.stop_reason in _CUT:
        return Truncated(limit, facts)
    text = _text(blocks)
    if facts.stop_reason not in _FINISHED or (blocks and text is None):
        return NoAnswer(status, facts)  # a pause, a tool call, or a word that is new
    return Answered(text or "", facts)


def parse_error(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime | None
) -> Reply:
    """Reads any other status; `now` is what a date in `Retry-After` counts from at need."""
    return _error(status, headers, json_in(body), now)


def _error(status: int, headers: Mapping[str, str], document: Any, now: datetime | None) -> Reply:
    codes, words = _codes_and_words(document)
    if status == 400 and words.startswith(_FILTERED):
        facts = CallFacts(request_id=_request_id(headers))
        return Refused("the provider's filter stopped the answer", facts, "content_filter")
    for phrase, code in _PROFILE_WORDS.items():
        if status == 400 and phrase.match(words):
            return Rejected("profile", status, code)
    return parse_status(status, codes, retry_after_s(headers, now), _PROFILE_CODES)


def _refused(details: Any, facts: CallFacts) -> Refused:
    match details:
        case {**stop_details}:
            explanation = stop_details.get("explanation")
            category = code_in(stop_details.get("category"))
        case _:
            explanation, category = None, None
    reason = explanation if isinstance(explanation, str) and explanation.strip() else _REFUSED
    return Refused(clip(reason, REASON_BYTES_MAX), facts, category)


def _text(blocks: Sequence[Any]) -> str | None:
    """The text blocks as one text; None if there is none. Thoughts are not part of an answer."""
    texts = [
        block["text"]
        for block in blocks
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    ]
    return "".join(texts) if texts else None


def _codes_and_words(document: Any) -> tuple[tuple[str, ...], str]:
    """The codes of an error, the most telling one first, and its words, which stay here."""
    match document:
        case {"error": {**error}}:
            details = error.get("details")
            inner = details.get("error_code") if isinstance(details, dict) else None
            codes = (code_in(inner), code_in(error.get("type")))
            words = error.get("message")
            return tuple(code for code in codes if code), words if isinstance(words, str) else ""
        case _:
            return (), ""


def _usage(value: Any) -> Usage:
    match value:
        case {**usage}:
            # What a cache served or took is counted beside the rest here.
            served = usage.get("cache_read_input_tokens")
            taken = usage.get("cache_creation_input_tokens")
            written = tokens_in(taken) or None
            return Usage(
                input_tokens=tokens_sum(usage.get("input_tokens"), served, taken),
                output_tokens=tokens_in(usage.get("output_tokens")),
                cached_tokens=tokens_in(served) or None,
                cache_write_tokens=written,
                cache_write_1h_tokens=_kept_for_hour(usage) if written else None,
                reasoning_tokens=_thoughts(usage.get("output_tokens_details")),
            )
        case _:
            return Usage()


def _tier(value: Any) -> str | None:
    match value:
        case {"service_tier": named}:
            return tier_in(named)
        case _:
            return None


def _kept_for_hour(usage: Mapping[Any, Any]) -> int | None:
    """Of what a cache took; None where the parts are not reported."""
    match usage.get("cache_creation"):
        case {**parts}:
            return tokens_in(parts.get("ephemeral_1h_input_tokens"))
        case _:
            return None


def _thoughts(details: Any) -> int | None:
    match details:
        case {**parts}:
            return tokens_in(parts.get("thinking_tokens")) or None
        case _:
            return None


def _request_id(headers: Mapping[str, str]) -> str | None:
    return name_in(headers.get("request-id"))


@dataclass(frozen=True, slots=True)
class AnthropicApi:
    """See Api; with `prompt_cache` the provider keeps each prompt for those that begin with it.

    `thinking_budget` bounds, in tokens, what is thought before the answer; 0 is no thought.
    """

    connection: Connection
    prompt_cache: "CacheControlEphemeralParam | None" = None
    service_tier: Literal["auto", "standard_only"] | None = None
    reasoning_effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    thinking_budget: int | None = None
    name: ClassVar[str] = "anthropic"
    parse_response = staticmethod(parse_response)
    parse_error = staticmethod(parse_error)

    @property
    def base_url(self) -> str:
        return self.connection.url(ANTHROPIC_BASE_URL)

    @property
    def headers(self) -> Mapping[str, str]:
        key = self.connection.key_header("authorization", "Bearer ")
        return {"anthropic-version": ANTHROPIC_VERSION, **key}

    def request(self, prompt: Prompt) -> HttpRequest:
        body: MessageCreateParamsNonStreaming = {
            "model": self.connection.model,
            "system": prompt.system,
            "messages": [_message(turn) for turn in prompt.turns],
            "max_tokens": prompt.max_output_tokens,
        }
        output: OutputConfigParam = {}
        if (schema := prompt.wire.schema) is not None:
            output["format"] = {"type": "json_schema", "schema": {**schema}}
        if self.reasoning_effort is not None:
            output["effort"] = self.reasoning_effort
        if output:  # first, as what prompts have in common
            body = {"output_config": output, **body}
        if self.prompt_cache:
            body["cache_control"] = self.prompt_cache
        if self.service_tier is not None:
            body["service_tier"] = self.service_tier
        if self.thinking_budget == 0:
            body["thinking"] = {"type": "disabled"}
        elif self.thinking_budget is not None:
            body["thinking"] = {"type": "enabled", "budget_tokens": self.thinking_budget}
        sampling = {"temperature": self.connection.temperature}  # which the SDK's type lacks
        given = {name: value for name, value in sampling.items() if value is not None}
        return HttpRequest("POST", "/v1/messages", {**body, **given})

    def preflight(self) -> Preflight:
        """Asks what the model can do: it costs nothing and needs the key."""
        at_anthropic = self.base_url == ANTHROPIC_BASE_URL
        if fault := preflight.check_key(self.connection.api_key, needed=at_anthropic):
            return NotReady(fault)
        model = HttpRequest("GET", "/v1/models/" + quote(self.connection.model, safe=":="))
        problem = yield from preflight.check_one_model(
            self, model, LISTING, self._judged, self._unknown
        )
        return problem or Ready()

    def _judged(self, model: Mapping[str, Any]) -> str | None:
        name, needs_schemas = self.connection.model, self.connection.native
        match model:
            case {"capabilities": {"structured_outputs": {"supported": False}}} if needs_schemas:
                return preflight.check_capability(name)
            case {"lifecycle": "retired"}:
                return f"the model {name!r} is retired: set `model` to a newer one"
            case _:
                return None

    def _unknown(self, listing: bytes) -> str | None:
        known = preflight.models_in(listing)
        if not known or self.connection.model in known:
            return None
        return preflight.check_model(self.connection.model, known, self.base_url)


def _message(turn: Turn) -> "MessageParam":
    if turn.role == "user":
        return {"role": "user", "content": turn.text}
    return {"role": "assistant", "content": turn.text}
