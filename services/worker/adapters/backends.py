"""From profiles in the settings to backends: the one place that knows every provider."""

# HTTP and the price list take time to load, and profiles of scripts need neither.
# ruff: noqa: PLC0415

from collections.abc import Mapping
from typing import assert_never

from answerbus.masking import Mask
from services.profiles import (
    AnthropicProfile,
    GeminiProfile,
    OllamaProfile,
    OpenAIProfile,
    Profile,
    RealProfile,
    ScriptedProfile,
)
from services.settings import SetUpError, secret, secrets_of_profiles
from services.worker.adapters.providers.apis.anthropic import AnthropicApi
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.gemini import GeminiApi
from services.worker.adapters.providers.apis.ollama import OllamaApi
from services.worker.adapters.providers.apis.openai import OpenAIApi
from services.worker.adapters.providers.masked import MaskedProvider
from services.worker.adapters.providers.scripted import ScriptedProvider
from services.worker.core.attempt.plan import ProfileFacts, Tariff
from services.worker.dialects.dispatch import DialectName
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.plans import Backend
from services.worker.ports import Clock, NotReady, Provider

_LLAMA_CPP = "llamacpp"  # as its servers call themselves


def build(profiles: Mapping[str, Profile], clock: Clock) -> dict[str, Backend]:
    """One backend a profile. Raises SetUpError when there is none."""
    if not profiles:
        raise SetUpError(
            "No profile is configured: add a table [profiles.default] to answerbus.toml that "
            "names a provider and a model."
        )
    mask = Mask(secrets_of_profiles(profiles))  # a server may know the keys of other profiles too
    return {name: _backend(name, profile, clock, mask) for name, profile in profiles.items()}


async def preflight(backends: Mapping[str, Backend]) -> list[str]:
    """Find out whether each profile can work. Raises SetUpError with the remedy.

    Returned are sentences about what works and could be set better.
    """
    advice = []
    for name, backend in backends.items():
        ready = await backend.provider.preflight()
        if isinstance(ready, NotReady):
            raise SetUpError(f"Profile `{name}`: {ready.remedy}")
        if ready.software == _LLAMA_CPP and backend.dialect == "openai":
            advice.append(
                f"Profile `{name}`: the server is llama.cpp, which enforces more of a schema "
                'with `dialect = "llama_cpp"`'
            )
    return advice


def _backend(name: str, profile: Profile, clock: Clock, mask: Mask) -> Backend:
    facts = ProfileFacts(
        name=name,
        provider=profile.provider,
        model=profile.model,
        max_output_tokens=profile.max_output_tokens,
        timeout_s=profile.timeout_s,
        tariff=_tariff(profile, clock),
        show_schema=_shows_schema(profile),
    )
    limiter = ProfileLimiter(
        profile.max_in_flight, profile.requests_per_minute, profile.tokens_per_minute
    )
    provider = MaskedProvider(_provider(name, profile, clock), mask)
    return Backend(facts, _dialect(profile), provider, limiter)


def _tariff(profile: Profile, clock: Clock) -> Tariff | None:
    if profile.price is not None:
        return Tariff(profile.price.input_usd, profile.price.output_usd)
    if isinstance(profile, ScriptedProfile) or profile.base_url is not None:
        return None  # whoever serves this has prices of their own
    from services.worker.adapters.providers.prices import known_tariff

    return known_tariff(profile.provider, profile.model, clock.now())


def _dialect(profile: Profile) -> DialectName:
    if profile.dialect != "native":
        return profile.dialect
    match profile:
        case OpenAIProfile() | ScriptedProfile():
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
    if not isinstance(profile, OpenAIProfile):
        return False
    return profile.base_url is not None if profile.show_schema is None else profile.show_schema


def _provider(name: str, profile: Profile, clock: Clock) -> Provider:
    if isinstance(profile, ScriptedProfile):
        return ScriptedProvider(
            script=profile.script, journal=profile.journal, model=profile.model, clock=clock
        )
    from services.worker.adapters.providers.http import HttpProvider
    from services.worker.adapters.providers.sdks import headers_of

    api = _api(profile, _connection(name, profile))
    return HttpProvider(api, headers_of(api), clock)


def _api(profile: RealProfile, connection: Connection) -> Api:
    match profile:
        case OpenAIProfile():
            return OpenAIApi(connection, profile.output_limit_field, profile.api)
        case AnthropicProfile():
            return AnthropicApi(connection)
        case GeminiProfile():
            return GeminiApi(connection, profile.thinking_budget)
        case OllamaProfile():
            return OllamaApi(connection, profile.context_tokens, profile.think)
        case _:
            assert_never(profile)


def _connection(name: str, profile: RealProfile) -> Connection:
    return Connection(
        model=profile.model,
        api_key=_key(name, profile),
        base_url=profile.base_url,
        max_in_flight=profile.max_in_flight,
        temperature=profile.temperature,
        check_model=profile.check_model,
        native=profile.dialect != "prompted",
    )


def _key(name: str, profile: RealProfile) -> str | None:
    """The key of a profile; a server of one's own may need none, but what is named is there."""
    key = secret(profile.api_key_env)
    at_home = profile.base_url is not None or isinstance(profile, OllamaProfile)
    is_named = "api_key_env" in profile.model_fields_set
    if profile.api_key_env and key is None and (is_named or not at_home):
        without = f", or leave `profiles.{name}.api_key_env` out if it needs none" * at_home
        raise SetUpError(
            f"Profile `{name}`: the variable {profile.api_key_env} is not set; put the "
            f"key there, or name another variable in `profiles.{name}.api_key_env`{without}."
        )
    return key
