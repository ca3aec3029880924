"""A span, as an exporter takes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from answerbus.trace import Trace

Attributes = Mapping[str, str | int | float | bool | Sequence[str]]
_PROVIDERS = {  # where the conventions have another name than our settings
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "vertex_anthropic": "gcp.vertex_ai",
}


def genai_provider(provider: str) -> str:
    """The name of a provider in OpenTelemetry's conventions."""
    return _PROVIDERS.get(provider, provider)


@dataclass(frozen=True, slots=True)
class Span:
    """Something that is over; `trace` names the span itself, `parent` who caused it."""

    name: str
    kind: Literal["client", "consumer", "internal"]
    trace: Trace
    parent: Trace | None
    start: datetime
    end: datetime
    attributes: Attributes
    failed: bool
