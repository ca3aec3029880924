"""All providers by name: those that ship, and those of installed distributions."""

from collections.abc import Mapping
from typing import Any

from services.settings.installed import UnusablePlugin, names, require_free
from services.settings.profiles import BUILT_IN, PROVIDERS, ReachedProfile, plugin
from services.worker.adapters.providers.kinds.anthropic import AnthropicKind
from services.worker.adapters.providers.kinds.azure import AzureKind
from services.worker.adapters.providers.kinds.bedrock import BedrockKind
from services.worker.adapters.providers.kinds.gemini import GeminiKind
from services.worker.adapters.providers.kinds.kind import ProviderKind
from services.worker.adapters.providers.kinds.ollama import OllamaKind
from services.worker.adapters.providers.kinds.openai import OpenAIKind
from services.worker.adapters.providers.kinds.vertex import VertexAnthropicKind, VertexKind

Kind = ProviderKind[Any]  # whose profiles are those of its own class, as `kind_of` chooses it
SHIPPED: Mapping[str, Kind] = {
    "openai": OpenAIKind(),
    "azure": AzureKind(),
    "anthropic": AnthropicKind(),
    "gemini": GeminiKind(),
    "bedrock": BedrockKind(),
    "vertex": VertexKind(),
    "vertex_anthropic": VertexAnthropicKind(),
    "ollama": OllamaKind(),
}


def kind_of(profile: ReachedProfile) -> Kind:
    """The provider that a profile names. Raises UnusablePlugin."""
    return kind_named(profile.provider)


def kind_named(name: str) -> Kind:
    """One of ours, else that of a distribution. Raises UnusablePlugin."""
    if name in SHIPPED:
        return SHIPPED[name]
    found = plugin(name)
    if not isinstance(found, ProviderKind):
        raise UnusablePlugin(f"the provider {name!r} is not a ProviderKind")
    return found


def known_names() -> list[str]:
    """Those that ship first. Raises UnusablePlugin where a distribution claims one of theirs."""
    require_free(PROVIDERS, BUILT_IN, "provider")
    return [*SHIPPED, *sorted(names(PROVIDERS))]
