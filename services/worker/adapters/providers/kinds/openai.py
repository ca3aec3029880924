"""OpenAI, and vendors that speak its API."""

from typing import Any, TypeVar

from pydantic_core import to_json

from services.settings.profiles import OpenAILikeProfile, OpenAIProfile
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.openai import OpenAIApi, ServiceTier
from services.worker.adapters.providers.kinds.kind import ProviderKind, SampleReplies, SampleReply
from services.worker.core.attempt.tariff import NO_TIER, STANDARD, Kept

L = TypeVar("L", bound=OpenAILikeProfile)


class OpenAILikeKind(ProviderKind[L]):
    """See ProviderKind: with a `profile` and an `api_type` of its own, a vendor is whole."""

    dialect = "openai"
    api_type: type[OpenAIApi] = OpenAIApi

    def api(self, profile: L, connection: Connection) -> Api:
        return self.api_type(connection, **self.fields(profile))

    def fields(self, profile: L) -> dict[str, Any]:
        """The arguments of `api_type` beside the connection."""
        return {
            "output_limit_field": profile.output_limit_field,
            "api": profile.api,
            "service_tier": profile.service_tier,
            "reasoning_effort": profile.reasoning_effort,
            "verbosity": profile.verbosity,
            "prompt_cache_key": profile.prompt_cache_key,
        }

    def standard_api(self, profile: L, connection: Connection) -> Api | None:
        if not profile.flex_fallback:
            return None
        return self.api_type(connection, **{**self.fields(profile), "service_tier": "default"})

    def shows_schema(self, profile: L) -> bool:
        """Servers like llama.cpp enforce it unseen."""
        return profile.base_url is not None if profile.show_schema is None else profile.show_schema

    def asked_tier(self, profile: L) -> str:
        named = self.fields(profile).get("service_tier")
        return STANDARD if named == "default" else str(named or NO_TIER)

    def kept(self, profile: L) -> Kept:  # noqa: ARG002
        return "minutes"

    def samples(self, profile: L) -> SampleReplies:
        return _RESPONSES if profile.api == "responses" else _CHAT


class OpenAIKind(OpenAILikeKind[OpenAIProfile]):
    """See ProviderKind."""

    profile = OpenAIProfile
    vendor = "openai"

    def fields(self, profile: OpenAIProfile) -> dict[str, Any]:
        """At OpenAI itself a tier is always named: else its project says what calls cost."""
        usual: ServiceTier | None = "default" if profile.base_url is None else None
        return {**super().fields(profile), "service_tier": profile.service_tier or usual}


def _chat(finish: str, message: dict[str, Any]) -> SampleReply:
    usage = {"prompt_tokens": 12, "completion_tokens": 3}
    choice = {"message": message, "finish_reason": finish}
    return SampleReply(to_json({"id": "c-1", "model": "m", "choices": [choice], "usage": usage}))


def _response(status: str, content: dict[str, Any], **more: Any) -> SampleReply:
    usage = {"input_tokens": 12, "output_tokens": 3}
    output = [{"type": "message", "content": [content]}]
    return SampleReply(
        to_json({"id": "r-1", "status": status, "output": output, "usage": usage, **more})
    )


_ERROR = to_json({"error": {"message": "no", "type": "invalid_request_error", "code": None}})
_READY = to_json({"object": "list", "data": [{"id": "m"}]})
_CHAT = SampleReplies(
    answered=_chat("stop", {"content": "{}"}),
    truncated=_chat("length", {"content": "{"}),
    refused=_chat("stop", {"content": None, "refusal": "no"}),
    error=_ERROR,
    ready=_READY,
)
_RESPONSES = SampleReplies(
    answered=_response("completed", {"type": "output_text", "text": "{}"}),
    truncated=_response(
        "incomplete",
        {"type": "output_text", "text": "{"},
        incomplete_details={"reason": "max_output_tokens"},
    ),
    refused=_response("completed", {"type": "refusal", "refusal": "no"}),
    error=_ERROR,
    ready=_READY,
)
