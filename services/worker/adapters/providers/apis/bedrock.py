"""Amazon Bedrock's Converse, for the models of all makers that it has; pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal
from urllib.parse import quote, urlsplit

from answerbus.budget import Usage
from services.worker.adapters.providers.apis import preflight
from services.worker.adapters.providers.apis.api import (
    HttpRequest,
    HttpResponse,
    Preflight,
    Signer,
)
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.errors_inside import true_status
from services.worker.adapters.providers.apis.response_fields import (
    code_in,
    json_in,
    name_in,
    parse_status,
    retry_after_s,
    tier_in,
    tokens_in,
    tokens_sum,
)
from services.worker.adapters.providers.apis.sigv4 import signed_headers
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
from services.worker.ports.provider import NotReady, Readiness, Ready

Tier = Literal["default", "flex", "priority", "reserved"]
SCHEMA_NAME_CHARS_MAX = 64
_CUT = {"max_tokens", "model_context_window_exceeded"}
_FILTERED = {"guardrail_intervened", "content_filtered"}
_FINISHED = {"end_turn", "stop_sequence"}
# The region has no such model, or has it by the id of an inference profile alone.
_NO_MODEL_HERE = re.compile(
    r"The provided model (?:identifier is invalid|\S+ support on-demand throughput)"
    r"|Invocation of model ID \S+ with on-demand throughput"
)
# No model's own id; `arn:` may be one, too.
_INFERENCE_PROFILE = re.compile(r"arn:|[a-z-]+\.[a-z]{2}[a-z0-9]*\.")
_MAY_NOT_COUNT = "is not authorized to perform: bedrock:CountTokens"
_PROFILE_CODES = {
    *("AccessDeniedException", "ExpiredTokenException", "IncompleteSignature"),
    *("InvalidSignatureException", "ResourceNotFoundException", "UnrecognizedClientException"),
    *("NotAuthorized", "RequestExpired"),
}
_REMEDIES = {
    "AccessDeniedException": (
        "may not call the model: give its role `bedrock:InvokeModel` for it, and the account "
        "access to the model in this region"
    ),
    "ExpiredTokenException": "has keys that have ended: renew what its identity is made from",
    "InvalidSignatureException": (
        "signs with another clock or another secret than AWS knows: set the clock of this machine"
    ),
    "UnrecognizedClientException": "has keys that AWS does not know: correct its identity",
}


def parse_response(status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
    """Reads a 2xx; `limit` is the output limit in tokens that was asked for."""
    document = json_in(body)
    match document:
        case {"error": {**error}} if (real_status := true_status(error)) is not None:
            return _error(real_status, headers, document, None)
        case {"output": {"message": {"content": [*blocks]}}, **response}:
            pass
        case _:
            return Unavailable(status, ran=True)
    stop = name_in(response.get("stopReason"))
    tier = response.get("serviceTier")
    facts = CallFacts(
        request_id=name_in(headers.get("x-amzn-requestid")),
        stop_reason=stop,
        usage=_usage(response.get("usage")),
        service_tier=tier_in(tier.get("type")) if isinstance(tier, dict) else None,
    )
    if stop in _FILTERED:
        return Refused("the provider's filter stopped the answer", facts, stop)
    if stop in _CUT:
        return Truncated(limit, facts)
    texts = [
        block["text"]
        for block in blocks
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    if stop not in _FINISHED or (blocks and not texts):
        return NoAnswer(status, facts)  # a tool call, thoughts alone, a word that is new
    return Answered("".join(texts), facts)


def parse_error(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime | None
) -> Reply:
    """Reads any other status; `now` is what a date in `Retry-After` counts from at need."""
    return _error(status, headers, json_in(body), now)


def _error(status: int, headers: Mapping[str, str], document: Any, now: datetime | None) -> Reply:
    code = _code(headers, document)
    if status == 400 and _NO_MODEL_HERE.match(_words(document)):
        return Rejected("profile", status, "model_not_in_region")
    if status == 403 and _MAY_NOT_COUNT in _words(document):
        return Rejected("profile", status, "may_not_count_tokens")
    return parse_status(
        status, (code,) if code else (), retry_after_s(headers, now), _PROFILE_CODES
    )


def _code(headers: Mapping[str, str], document: Any) -> str | None:
    """In a header, before a colon and an address; proxies leave it in the body alone."""
    named = code_in((headers.get("x-amzn-errortype") or "").partition(":")[0])
    if named:
        return named
    match document:
        case {"__type": str(kind)}:
            return code_in(kind.rpartition("#")[2])
        case _:
            return None


def _words(document: Any) -> str:
    """What an error says in prose, which stays here."""
    match document:
        case {"message": str(words)} | {"Message": str(words)}:
            return words
        case _:
            return ""


def _usage(value: Any) -> Usage:
    match value:
        case {**usage}:
            # What a cache served or took is counted beside the rest, as Anthropic does.
            served, taken = usage.get("cacheReadInputTokens"), usage.get("cacheWriteInputTokens")
            return Usage(
                input_tokens=tokens_sum(usage.get("inputTokens"), served, taken),
                output_tokens=tokens_in(usage.get("outputTokens")),
                cached_tokens=tokens_in(served) or None,
                cache_write_tokens=tokens_in(taken) or None,
            )
        case _:
            return Usage()


@dataclass(frozen=True, slots=True)
class BedrockApi:
    """See Api. The address has the region; requests are signed, or have a Bedrock key."""

    connection: Connection
    region: str
    service_tier: Tier | None = None
    name: ClassVar[str] = "bedrock"
    parse_response = staticmethod(parse_response)
    parse_error = staticmethod(parse_error)

    @property
    def base_url(self) -> str:
        return self.connection.url(f"https://bedrock-runtime.{self.region}.amazonaws.com")

    @property
    def headers(self) -> Mapping[str, str]:
        return self.connection.key_header("authorization", "Bearer ")

    @property
    def signer(self) -> Signer | None:
        """The signing keys; None where a key is in the headers."""
        keys = self.connection.signing
        if keys is None:
            return None
        host = urlsplit(self.base_url).netloc.rpartition("@")[2].removesuffix(":443")

        def sign(method: str, target: str, body: bytes, now: datetime) -> Mapping[str, str]:
            return signed_headers(keys, host, self.region, "bedrock", method, target, body, now)

        return sign

    def request(self, prompt: Prompt) -> HttpRequest:
        limits: dict[str, Any] = {"maxTokens": prompt.max_output_tokens}
        if self.connection.temperature is not None:
            limits["temperature"] = self.connection.temperature
        body: dict[str, Any] = {
            "system": [{"text": prompt.system}],
            "messages": [_message(turn.role, turn.text) for turn in prompt.turns],
            "inferenceConfig": limits,
        }
        if (schema := prompt.wire.schema) is not None:
            # Not Anthropic's `output_config.format`, which Bedrock's other path refuses: and the
            # schema is a text here.
            text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
            form = {"name": _name(prompt.wire.name), "schema": text}
            body["outputConfig"] = {
                "textFormat": {"type": "json_schema", "structure": {"jsonSchema": form}}
            }
        if self.service_tier is not None:
            body["serviceTier"] = {"type": self.service_tier}
        return HttpRequest("POST", f"{self._path}/converse", body)

    def preflight(self) -> Preflight:
        """Asks how many tokens a word has, which costs nothing and needs region, key and model.

        Models that cannot say it say so, and are ready. So are inference profiles, which are not
        counted for, and those of a role that may only call models.
        """
        if fault := preflight.check_key(self.connection.api_key, needed=False):
            return NotReady(fault)
        if not self.connection.check_model:
            return Ready()
        asked = {"input": {"converse": {"messages": [_message("user", "word")]}}}
        found = yield HttpRequest("POST", f"{self._path}/count-tokens", asked)
        if isinstance(found, HttpResponse):
            return Ready()
        return self._verdict(found)

    def _verdict(self, found: Reply) -> Readiness:
        credential, model = self.connection.credential, self.connection.model
        match found:
            case Rejected(code="model_not_in_region") if _INFERENCE_PROFILE.match(model):
                return Ready()
            case Rejected(code="model_not_in_region") | Rejected(status=404):
                return NotReady(
                    f"the region {self.region} has no model {model!r}: set `region`, or `model` to "
                    f"the id of an inference profile, such as {self._profile_id!r}"
                )
            case Rejected(code=str(code)) if code in _REMEDIES and credential:
                return NotReady(f"the credential `{credential}` {_REMEDIES[code]}")
            case _:
                return preflight.check_listing(found, self) or Ready()

    @property
    def _path(self) -> str:
        return "/model/" + quote(self.connection.model, safe="")

    @property
    def _profile_id(self) -> str:
        area = self.region.partition("-")[0]
        name = self.connection.model.removeprefix(f"{area}.").removeprefix("global.")
        return f"{area}.{name}"


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"text": text}]}


def _name(name: str) -> str:
    kept = "".join(sign if sign.isascii() and sign.isalnum() else "_" for sign in name)
    return kept[:SCHEMA_NAME_CHARS_MAX]
