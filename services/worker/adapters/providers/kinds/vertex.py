"""Google Vertex: Gemini, and Anthropic's models."""

from dataclasses import replace

from pydantic_core import to_json

from services.settings.profiles import VertexAnthropicProfile, VertexProfile
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.vertex import (
    Place,
    VertexAnthropicApi,
    VertexGeminiApi,
)
from services.worker.adapters.providers.kinds import anthropic, gemini
from services.worker.adapters.providers.kinds.kind import ProviderKind, SampleReplies

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
EXAMPLE = {"project": "p-1", "region": "europe-west4", "credential": "google"}


class VertexKind(ProviderKind[VertexProfile]):
    """See ProviderKind: Gemini."""

    profile = VertexProfile
    vendor = "google"
    dialect = "gemini"
    audience = SCOPE
    example = EXAMPLE

    def api(self, profile: VertexProfile, connection: Connection) -> Api:
        budget, effort = profile.thinking_budget, profile.reasoning_effort
        place = Place(profile.project, profile.region)
        return VertexGeminiApi(connection, budget, effort, place=place)

    def samples(self, profile: VertexProfile) -> SampleReplies:  # noqa: ARG002
        return replace(gemini.SAMPLES, ready=to_json({"totalTokens": 1}))


class VertexAnthropicKind(ProviderKind[VertexAnthropicProfile]):
    """See ProviderKind: Anthropic's models."""

    profile = VertexAnthropicProfile
    vendor = "google"
    dialect = "anthropic"
    audience = SCOPE
    example = EXAMPLE

    def api(self, profile: VertexAnthropicProfile, connection: Connection) -> Api:
        place = Place(profile.project, profile.region)
        return VertexAnthropicApi(
            connection,
            reasoning_effort=profile.reasoning_effort,
            thinking_budget=profile.thinking_budget,
            place=place,
        )

    def samples(self, profile: VertexAnthropicProfile) -> SampleReplies:  # noqa: ARG002
        return replace(anthropic.SAMPLES, ready=to_json({"input_tokens": 1}))
