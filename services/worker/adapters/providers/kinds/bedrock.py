"""Amazon Bedrock."""

from typing import Any

from pydantic_core import to_json

from services.settings.profiles import BedrockProfile
from services.worker.adapters.providers.apis.api import Signer
from services.worker.adapters.providers.apis.bedrock import BedrockApi
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.kinds.kind import (
    ProviderKind,
    SampleReplies,
    SampleReply,
)
from services.worker.core.attempt.tariff import STANDARD


class BedrockKind(ProviderKind[BedrockProfile]):
    """See ProviderKind. What it enforces of a schema is documented as Anthropic's subset."""

    profile = BedrockProfile
    vendor = "aws"
    dialect = "anthropic"
    example = {"region": "eu-central-1"}

    def api(self, profile: BedrockProfile, connection: Connection) -> BedrockApi:
        return BedrockApi(connection, profile.region, profile.service_tier)

    def sign(self, profile: BedrockProfile, connection: Connection) -> Signer | None:
        return self.api(profile, connection).signer

    def asked_tier(self, profile: BedrockProfile) -> str:
        named = profile.service_tier
        return STANDARD if named in {None, "default"} else str(named)

    def samples(self, profile: BedrockProfile) -> SampleReplies:  # noqa: ARG002
        return SAMPLES


def _reply(stop: str, *texts: str) -> SampleReply:
    content: list[Any] = [{"text": text} for text in texts]
    return SampleReply(
        to_json(
            {
                "output": {"message": {"role": "assistant", "content": content}},
                "stopReason": stop,
                "usage": {"inputTokens": 12, "outputTokens": 3, "totalTokens": 15},
            }
        )
    )


SAMPLES = SampleReplies(
    answered=_reply("end_turn", "{}"),
    truncated=_reply("max_tokens", "{"),
    refused=_reply("content_filtered"),
    error=to_json({"message": "no"}),
    ready=to_json({"inputTokens": 1}),
)
