"""From one profile to its backend: the one place that knows every provider."""

# HTTP and the price list take time to load, and profiles of scripts need neither.
# ruff: noqa: PLC0415

from dataclasses import dataclass, field, replace
from typing import assert_never

from services.settings.fallback import FallbackSettings
from services.settings.profiles import (
    AnthropicProfile,
    GeminiProfile,
    OllamaProfile,
    OpenAILikeProfile,
    OpenAIProfile,
    Profile,
    RealProfile,
    ScriptedProfile,
)
from services.settings.secret_file import SecretFile
from services.settings.secrets import LiveMask
from services.settings.settings import SetUpError
from services.worker.adapters.providers.apis.anthropic import (
    CACHE,
    CACHE_FOR_HOUR,
    AnthropicApi,
)
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.gemini import GeminiApi
from services.worker.adapters.providers.apis.ollama import OllamaApi
from services.worker.adapters.providers.apis.openai import OpenAIApi, ServiceTier
from services.worker.adapters.providers.keyed import KeyedProvider
from services.worker.adapters.providers.keys import key_of
from services.worker.adapters.providers.masked import MaskedProvider
from services.worker.adapters.providers.scripted import ScriptedProvider
from services.worker.adapters.tariffs import tariff_of
from services.worker.core.attempt.fallback import Condition, Fallback
from services.worker.core.attempt.plan import ProfileFacts
from services.worker.core.limits.reachability import Reachability
from services.worker.dialects.dispatch import DialectName
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend
from services.worker.ports.clock import Clock
from services.worker.ports.costly_work import CostlyWork, InPlace
from services.worker.ports.provider import Provider


@dataclass(frozen=True, slots=True)
class BackendContext:
    """What all backends share: the clock, a mask of their secrets, and whether servers answer.

    A server may know the keys of other profiles too. `costly_work` masks long answers.
    """

    clock: Clock
    mask: LiveMask = field(default_factory=lambda: LiveMask((), ()))
    costly_work: CostlyWork = field(default_factory=InPlace)
    servers: dict[str, Reachability] = field(default_factory=dict)

    def server(self, address: str) -> Reachability:
        """One for all the profiles that it serves; shown without a secret."""
        return self.servers.setdefault(address, Reachability(self.mask(address)))


def backend_of(
    name: str, profile: Profile, context: BackendContext, key_file: SecretFile | None
) -> Backend:
    """The backend of a profile. Raises SetUpError that names it."""
    provider, server = _provider(name, profile, context.clock, key_file)
    facts = ProfileFacts(
        name=name,
        provider=profile.provider,
        model=profile.model,
        max_output_tokens=profile.max_output_tokens,
        timeout_s=profile.timeout_s,
        tariff=tariff_of(profile, context.clock.now()),
        show_schema=_shows_schema(profile),
        equal_answers_max=profile.equal_answers_max,
        context_tokens=profile.context_tokens,
        fallbacks=tuple(map(_fallback, profile.then)),
    )
    limiter = ProfileLimiter(
        profile.max_in_flight,
        profile.requests_per_minute,
        profile.tokens_per_minute,
        context.server(server),
        is_of_group=profile.scope == "group",
    )
    masked = MaskedProvider(provider, context.mask, context.costly_work)
    return Backend(facts, _dialect(profile), masked, limiter)


def _fallback(settings: FallbackSettings) -> Fallback:
    conditions = (Condition(kind, bound) for kind, bound in settings.conditions)
    return Fallback(settings.profile, tuple(conditions))


def _dialect(profile: Profile) -> DialectName:
    if profile.dialect != "native":
        return profile.dialect
    match profile:
        case OpenAILikeProfile() | ScriptedProfile():
            return "openai"
        case AnthropicProfile():
            return "anthropic"
        case GeminiProfile():
            return "gemini"
        case OllamaProfile():
            return "ollama"
        case _:
            assert_never(profile)


def _shows_schema(profile: Profile) -> bool:
    """Providers show the schema to their models; servers like llama.cpp enforce it unseen."""
    if isinstance(profile, OllamaProfile):
        return profile.show_schema
    if not isinstance(profile, OpenAILikeProfile):
        return False
    return profile.base_url is not None if profile.show_schema is None else profile.show_schema


def _provider(
    name: str, profile: Profile, clock: Clock, key_file: SecretFile | None
) -> tuple[Provider, str]:
    """The provider, and the server that it shares with other profiles."""
    if isinstance(profile, ScriptedProfile):
        scripted = ScriptedProvider(
            script=profile.script, journal=profile.journal, model=profile.model, clock=clock
        )
        return scripted, f"the script of profile {name}"
    from services.worker.adapters.providers.exchange import server_of
    from services.worker.adapters.providers.http import HttpProvider

    key = key_file.value if key_file else key_of(name, profile)
    connection = connection_of(profile, key)
    server = server_of(_api(profile, connection).base_url)
    if server is None:
        raise SetUpError(
            f"Profile `{name}`: `profiles.{name}.base_url` is no address: it must be one like "
            "https://host/v1 or http://localhost:8080/v1."
        )

    def make(key: str | None) -> Provider:
        keyed = replace(connection, api_key=key)
        return HttpProvider(_api(profile, keyed), clock, fallback=_standard_api(profile, keyed))

    return KeyedProvider(key_file, make) if key_file else make(key), server


def _api(profile: RealProfile, connection: Connection) -> Api:
    match profile:
        case OpenAIProfile():
            return openai_api(profile, connection)
        case AnthropicProfile():
            kept = CACHE_FOR_HOUR if profile.prompt_cache_ttl == "1h" else CACHE
            return AnthropicApi(
                connection,
                kept if profile.prompt_cache else None,
                profile.service_tier,
                profile.reasoning_effort,
                profile.thinking_budget,
            )
        case GeminiProfile():
            return GeminiApi(
                connection, profile.thinking_budget, profile.reasoning_effort, profile.service_tier
            )
        case OllamaProfile():
            return OllamaApi(connection, profile.context_tokens, profile.think)
        case _:
            assert_never(profile)


def openai_api(
    profile: OpenAILikeProfile, connection: Connection, api: type[OpenAIApi] = OpenAIApi
) -> OpenAIApi:
    """At OpenAI itself a tier is always named: else its project says, and so what calls cost."""
    is_home = api is OpenAIApi and profile.base_url is None
    usual: ServiceTier | None = "default" if is_home else None
    return api(
        connection,
        profile.output_limit_field,
        profile.api,
        profile.service_tier or usual,
        profile.reasoning_effort,
        profile.verbosity,
        profile.prompt_cache_key,
    )


def _standard_api(profile: RealProfile, connection: Connection) -> Api | None:
    """How a call is made again, in the standard tier, that the flex tier has no room for."""
    match profile:
        case OpenAIProfile(flex_fallback=True):
            return replace(openai_api(profile, connection), service_tier="default")
        case GeminiProfile(flex_fallback=True):
            effort, budget = profile.reasoning_effort, profile.thinking_budget
            return GeminiApi(connection, budget, effort, "standard")
        case _:
            return None


def connection_of(profile: RealProfile, key: str | None) -> Connection:
    return Connection(
        model=profile.model,
        api_key=key,
        base_url=profile.base_url,
        max_in_flight=profile.max_in_flight,
        temperature=profile.temperature,
        check_model=profile.check_model,
        native=profile.dialect != "prompted",
    )
