"""The Gemini API, and every server that speaks it: pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote

from answerbus.budget import Usage
from services.worker.adapters.providers.apis import preflight
from services.worker.adapters.providers.apis.api import HttpRequest, Preflight
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.errors_inside import true_status
from services.worker.adapters.providers.apis.response_fields import (
    NO_STRUCTURED_OUTPUT,
    RETRY_AFTER_S_MAX,
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
from services.worker.ports.provider import NotReady, Ready

GEMINI_BASE_URL = "https://generativelanguage.googleapis.com"
MODELS_LISTED_MAX = 1000  # the largest page there is
LISTING = HttpRequest("GET", f"/v1/models?pageSize={MODELS_LISTED_MAX}")
# The API serves these beside its own and knows no JSON mode for them; it says so in a call alone.
WITHOUT_SCHEMAS = re.compile(r"(?:models/)?gemma-[1-3]")
_ROLES = {"user": "user", "assistant": "model"}
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
# The only sign of it: the details are those of a limit of a minute.
_NO_MONEY = re.compile(
    r"Your (?:billing account|project) has exceeded its monthly spending cap"
    r"|Your prepayment credits are depleted"
)
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


def parse_response(status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
    """Reads a 2xx; `limit` is the output limit in tokens that was asked for."""
    parsed = json_in(body)
    real_status = true_status(_error(parsed))
    if real_status is not None:
        return _read_error(real_status, headers, parsed, None)
    match parsed:
        case {**document}:
            pass
        case _:
            return Unavailable(status, ran=True)
    match document.get("candidates"):
        case [{**candidate}, *_]:
            finish = name_in(candidate.get("finishReason"))
            return _finished(finish, candidate, _facts(document, finish, headers), status, limit)
        case _:
            return _without_candidate(document, headers, status)


def parse_error(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime | None
) -> Reply:
    """Reads any other status; `now` is what a date in `Retry-After` counts from at need."""
    return _read_error(status, headers, json_in(body), now)


def _read_error(
    status: int, headers: Mapping[str, str], document: Any, now: datetime | None
) -> Reply:
    error = _error(document)
    details = _details(error)
    codes = tuple(
        code
        for code in (
            *(code_in(detail.get("reason")) for detail in details),
            code_in(error.get("status")),
        )
        if code
    )
    message = error.get("message")
    words = message if isinstance(message, str) else ""
    if status == 400 and _NO_JSON_MODE.match(words):
        return Rejected("profile", status, NO_STRUCTURED_OUTPUT)
    is_for_long = any(map(_is_for_long, _violations(details))) or _NO_MONEY.match(words)
    if status == 429 and is_for_long:
        return Rejected("profile", status, codes[0] if codes else None)
    told_s = retry_after_s(headers, now)
    return parse_status(
        status, codes, _delay_s(details) if told_s is None else told_s, _PROFILE_CODES
    )


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
        return NoAnswer(status, facts)  # a malformed answer, a tool call, a word that is new
    return Answered("".join(texts), facts)


def _without_candidate(document: Members, headers: Mapping[str, str], status: int) -> Reply:
    facts = _facts(document, None, headers)
    match document:
        case {"promptFeedback": {"blockReason": str(reason)}}:
            return Refused("the provider's filter stopped the request", facts, code_in(reason))
        case {"usageMetadata": {**_used}}:
            return NoAnswer(status, facts)
        case _:
            return Unavailable(status, ran=True)


def _parts(content: Any) -> list[Members]:
    match content:
        case {"parts": [*parts]}:
            return [part for part in parts if isinstance(part, dict)]
        case _:
            return []


def _facts(document: Members, finish: str | None, headers: Mapping[str, str]) -> CallFacts:
    usage = document.get("usageMetadata")
    tier = usage.get("serviceTier") if isinstance(usage, dict) else None
    return CallFacts(
        model=name_in(document.get("modelVersion")),
        request_id=name_in(document.get("responseId")),
        stop_reason=finish,
        usage=_usage(usage),
        service_tier=tier_in(tier or headers.get("x-gemini-service-tier")),
    )


def _usage(value: Any) -> Usage:
    match value:
        case {**usage}:
            read = tokens_in(usage.get("promptTokenCount"))
            return Usage(
                input_tokens=read,
                output_tokens=_written(usage, read),
                cached_tokens=tokens_in(usage.get("cachedContentTokenCount")) or None,
                reasoning_tokens=tokens_in(usage.get("thoughtsTokenCount")) or None,
            )
        case _:
            return Usage()


def _written(usage: Members, read: int | None) -> int | None:
    """The answer, and the thoughts, which are paid for and counted beside it.

    A count of zero is left out: of a blocked prompt, and of an answer that is stopped before its
    first word, the total says that there is nothing.
    """
    written = [usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount")]
    written.sort(key=lambda count: count is None)
    total = tokens_in(usage.get("totalTokenCount"))
    if written == [None, None] and None not in {read, total}:
        return tokens_in((total or 0) - (read or 0))
    return tokens_sum(*written)


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
    """Whether a quota is that of a day, or is none at all: waiting for it would not help."""
    quota, value = violation.get("quotaId"), violation.get("quotaValue")
    return value == "0" or (isinstance(quota, str) and "PerDay" in quota)


def _delay_s(details: Sequence[Members]) -> float | None:
    """The seconds in the detail `RetryInfo`."""
    for detail in details:
        delay = detail.get("retryDelay")
        match = _DELAY.fullmatch(delay) if isinstance(delay, str) else None
        if match:
            return min(float(match[1]), RETRY_AFTER_S_MAX)
    return None


@dataclass(frozen=True, slots=True)
class GeminiApi:
    """See Api.

    `thinking_budget` bounds, in tokens, what is thought before the answer; it counts as output.
    """

    connection: Connection
    thinking_budget: int | None = None
    reasoning_effort: str | None = None
    service_tier: str | None = None
    name: ClassVar[str] = "gemini"
    parse_response = staticmethod(parse_response)
    parse_error = staticmethod(parse_error)

    @property
    def base_url(self) -> str:
        return self.connection.url(GEMINI_BASE_URL)

    @property
    def headers(self) -> Mapping[str, str]:
        return self.connection.key_header("x-goog-api-key")

    def request(self, prompt: Prompt) -> HttpRequest:
        config: dict[str, Any] = {}
        if self.connection.temperature is not None:
            config["temperature"] = self.connection.temperature
        if prompt.wire.schema is not None:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = prompt.wire.schema
        if self.thinking_budget is not None:
            config["thinkingConfig"] = {"thinking_budget": self.thinking_budget}
        if self.reasoning_effort is not None:
            config["thinkingConfig"] = {"thinking_level": self.reasoning_effort.upper()}
        contents = [_content(_ROLES[turn.role], turn.text) for turn in prompt.turns]
        body: dict[str, Any] = {
            "generationConfig": {**config, "maxOutputTokens": prompt.max_output_tokens},
            "systemInstruction": _content("user", prompt.system),
            "contents": contents,
        }
        if self.service_tier is not None:
            body["serviceTier"] = self.service_tier
        return HttpRequest("POST", f"{self._model_path}:generateContent", body)

    def preflight(self) -> Preflight:
        """Asks what the model can do: it costs nothing and needs the key."""
        connection = self.connection
        at_google = self.base_url == GEMINI_BASE_URL
        if fault := preflight.check_key(connection.api_key, needed=at_google):
            return NotReady(fault)
        if connection.native and WITHOUT_SCHEMAS.match(connection.model):
            return NotReady(preflight.check_capability(connection.model))
        model = HttpRequest("GET", self._model_path)
        problem = yield from preflight.check_one_model(
            self, model, LISTING, self._judged, self._unknown
        )
        return problem or Ready()

    @property
    def _model_path(self) -> str:
        """Names may say which kind of model they are (`models/`, `tunedModels/`)."""
        name = self.connection.model
        kind = "" if name.startswith(("models/", "tunedModels/")) else "models/"
        return "/v1/" + kind + quote(name, safe="/:")

    def _judged(self, model: Mapping[str, Any]) -> str | None:
        match model:
            case {"supportedGenerationMethods": [*methods]} if "generateContent" not in methods:
                return preflight.cannot_answer(self.connection.model)
            case _:
                return None

    def _unknown(self, listing: bytes) -> str | None:
        listed = preflight.models_in(listing, under="models", name="name") or frozenset()
        known = {name.removeprefix("models/") for name in listed}
        if not known or self.connection.model.removeprefix("models/") in known:
            return None
        return preflight.check_model(self.connection.model, known, self.base_url)


def _content(role: str, text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}], "role": role}
