"""Gemini."""

from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from services.settings.profiles import GeminiProfile
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.gemini import GeminiApi
from services.worker.adapters.providers.kinds.kind import ProviderKind, SampleReplies, SampleReply
from services.worker.core.attempt.tariff import STANDARD


class GeminiKind(ProviderKind[GeminiProfile]):
    """See ProviderKind."""

    profile = GeminiProfile
    vendor = "google"
    dialect = "gemini"

    def api(self, profile: GeminiProfile, connection: Connection) -> GeminiApi:
        return GeminiApi(
            connection, profile.thinking_budget, profile.reasoning_effort, profile.service_tier
        )

    def standard_api(self, profile: GeminiProfile, connection: Connection) -> Api | None:
        if not profile.flex_fallback:
            return None
        return replace(self.api(profile, connection), service_tier="standard")

    def asked_tier(self, profile: GeminiProfile) -> str:
        return profile.service_tier or STANDARD

    def listed(self, profile: GeminiProfile) -> tuple[str, str] | None:
        """The list has the names of models without `models/`, which the API takes with it, too."""
        found = super().listed(profile)
        return found and (found[0], found[1].removeprefix("models/"))

    def samples(self, profile: GeminiProfile) -> SampleReplies:  # noqa: ARG002
        return SAMPLES


def _candidate(finish: str, *parts: str) -> SampleReply:
    content: dict[str, Any] = {"role": "model", "parts": [{"text": text} for text in parts]}
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 3}
    candidate = {"content": content, "finishReason": finish}
    return SampleReply(to_json({"candidates": [candidate], "usageMetadata": usage}))


SAMPLES = SampleReplies(
    answered=_candidate("STOP", "{}"),
    truncated=_candidate("MAX_TOKENS", "{"),
    refused=_candidate("SAFETY"),
    error=to_json({"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}),
    ready=to_json({"name": "models/m", "supportedGenerationMethods": ["generateContent"]}),
)
