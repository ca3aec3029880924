"""Anthropic."""

from decimal import Decimal
from typing import Any

from pydantic_core import to_json

from services.settings.profiles import AnthropicProfile
from services.worker.adapters.providers.apis.anthropic import (
    CACHE,
    CACHE_FOR_HOUR,
    AnthropicApi,
)
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.kinds.kind import ProviderKind, SampleReplies, SampleReply
from services.worker.core.attempt.tariff import Kept

# What Anthropic takes for a token that its cache keeps, for five minutes and for an hour.
CACHE_WRITE_FACTORS = Decimal("1.25"), Decimal(2)


class AnthropicKind(ProviderKind[AnthropicProfile]):
    """See ProviderKind."""

    profile = AnthropicProfile
    vendor = "anthropic"
    dialect = "anthropic"

    def api(self, profile: AnthropicProfile, connection: Connection) -> Api:
        kept = CACHE_FOR_HOUR if profile.prompt_cache_ttl == "1h" else CACHE
        return AnthropicApi(
            connection,
            kept if profile.prompt_cache else None,
            profile.service_tier,
            profile.reasoning_effort,
            profile.thinking_budget,
        )

    def kept(self, profile: AnthropicProfile) -> Kept:
        if not profile.prompt_cache:
            return "not"
        return "hour" if profile.prompt_cache_ttl == "1h" else "minutes"

    def cache_write_factors(self) -> tuple[Decimal, Decimal]:
        return CACHE_WRITE_FACTORS

    def samples(self, profile: AnthropicProfile) -> SampleReplies:  # noqa: ARG002
        return SAMPLES


def _message(stop: str, *texts: str) -> SampleReply:
    content: list[Any] = [{"type": "text", "text": text} for text in texts]
    usage = {"input_tokens": 12, "output_tokens": 3}
    return SampleReply(
        to_json({"id": "m-1", "content": content, "stop_reason": stop, "usage": usage})
    )


SAMPLES = SampleReplies(
    answered=_message("end_turn", "{}"),
    truncated=_message("max_tokens", "{"),
    refused=_message("refusal"),
    error=to_json({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}),
    ready=to_json({"id": "m"}),
)
