"""From profiles in the settings to backends: the one place that knows every provider."""

# HTTP and the price list take time to load, and profiles of scripts need neither.
# ruff: noqa: PLC0415

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from services.live_mask import LiveMask
from services.profiles import (
    AnthropicProfile,
    GeminiProfile,
    OllamaProfile,
    OpenAIProfile,
    Profile,
    RealProfile,
    ScriptedProfile,
)
from services.secret_file import SecretFile
from services.settings import SetUpError
from services.settings_secrets import secrets_of_profiles
from services.worker.adapters.providers.apis.anthropic import AnthropicApi
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.gemini import GeminiApi
from services.worker.adapters.providers.apis.ollama import OllamaApi
from services.worker.adapters.providers.apis.openai import OpenAIApi
from services.worker.adapters.providers.keyed import KeyedProvider
from services.worker.adapters.providers.keys import key_files, key_of
from services.worker.adapters.providers.masked import MaskedProvider
from services.worker.adapters.providers.scripted import ScriptedProvider
from services.worker.adapters.tariffs import tariff_of
from services.worker.core.attempt.plan import ProfileFacts
from services.worker.core.limits.reachability import Reachability
from services.worker.dialects.dispatch import DialectName
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.plans import Backend
from services.worker.ports import Clock, NotReady, Provider, Ready, Unhealthy

_LLAMA_CPP = "llamacpp"  # as its servers call themselves
_ADVICE_ON_LLAMA_CPP = (
    'the server is llama.cpp, which enforces more of a schema with `dialect = "llama_cpp"`'
)


async def started(
    profiles: Mapping[str, Profile], clock: Clock
) -> tuple[dict[str, Backend], list[str]]:
    """Backends whose profiles were checked, and sentences on what is amiss but stops no profile.

    Raises SetUpError that names all profiles which can never work.
    """
    built, faults = _built(profiles, clock)
    try:
        found = await _checked(built)
        _refuse([*faults, *found.faults])
    except BaseException:
        await close(built)
        raise
    return built, [*found.unhealthy, *found.advice]


def build(profiles: Mapping[str, Profile], clock: Clock) -> dict[str, Backend]:
    """One backend a profile. Raises SetUpError that names all that cannot be built."""
    built, faults = _built(profiles, clock)
    _refuse(faults)
    return built


async def close(backends: Mapping[str, Backend]) -> None:
    """Release all connections."""
    for backend in backends.values():
        await backend.provider.close()


@dataclass(frozen=True, slots=True)
class StartFindings:
    """A sentence for each profile that can never work, not now, or could be set better."""

    faults: tuple[str, ...] = ()
    unhealthy: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


async def preflight(backends: Mapping[str, Backend]) -> StartFindings:
    """Find out whether each profile can work. Raises SetUpError as `started` does."""
    found = await _checked(backends)
    _refuse(found.faults)
    return found


async def _checked(backends: Mapping[str, Backend]) -> StartFindings:
    """All at once, so that many silent servers cost the time of one; limiters learn of it."""
    checks = (backend.provider.preflight() for backend in backends.values())
    found = await asyncio.gather(*checks)
    faults, unhealthy, advice = [], [], []
    for (name, backend), readiness in zip(backends.items(), found, strict=True):
        backend.limiter.checked(readiness)
        match readiness:
            case NotReady(remedy):
                faults.append(f"Profile `{name}`: {remedy}")
            case Unhealthy(why):
                unhealthy.append(f"Profile `{name}`: {why}")
            case Ready(software):
                if software == _LLAMA_CPP and backend.dialect == "openai":
                    advice.append(f"Profile `{name}`: {_ADVICE_ON_LLAMA_CPP}")
            case _:
                assert_never(readiness)
    return StartFindings(tuple(faults), tuple(unhealthy), tuple(advice))


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise SetUpError("\n".join(faults))


def _built(profiles: Mapping[str, Profile], clock: Clock) -> tuple[dict[str, Backend], list[str]]:
    """Backends, and a sentence for each profile that cannot have one."""
    if not profiles:
        raise SetUpError(
            "No profile is configured: add a table [profiles.default] to answerbus.toml that "
            "names a provider and a model."
        )
    files, faults_of_files = key_files(profiles)
    faults = [*faults_of_files.values()]
    # A server may know the keys of other profiles too.
    mask = LiveMask(secrets_of_profiles(profiles), [*files.values()])
    servers: dict[str, Reachability] = {}
    built = {}
    for name, profile in profiles.items():
        if name in faults_of_files:
            continue
        try:
            provider, server = _provider(name, profile, clock, files.get(name))
        except SetUpError as error:
            faults.append(str(error))
            continue
        reachability = servers.setdefault(server, Reachability(mask(server)))
        masked = MaskedProvider(provider, mask)
        built[name] = _backend(name, profile, clock, masked, reachability)
    return built, faults


def _backend(
    name: str, profile: Profile, clock: Clock, provider: Provider, server: Reachability
) -> Backend:
    facts = ProfileFacts(
        name=name,
        provider=profile.provider,
        model=profile.model,
        max_output_tokens=profile.max_output_tokens,
        timeout_s=profile.timeout_s,
        tariff=tariff_of(profile, clock.now()),
        show_schema=_shows_schema(profile),
    )
    limiter = ProfileLimiter(
        profile.max_in_flight,
        profile.requests_per_minute,
        profile.tokens_per_minute,
        server,
        is_of_group=profile.scope == "group",
    )
    return Backend(facts, _dialect(profile), provider, limiter)


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
    from services.worker.adapters.providers.sdks import headers_of

    key = key_file.value if key_file else key_of(name, profile)
    connection = _connection(profile, key)
    server = server_of(_api(profile, connection).base_url)
    if server is None:
        raise SetUpError(
            f"Profile `{name}`: `profiles.{name}.base_url` is no address: it must be one like "
            "https://host/v1 or http://localhost:8080/v1."
        )

    def make(key: str | None) -> Provider:
        api = _api(profile, replace(connection, api_key=key))
        return HttpProvider(api, headers_of(api), clock)

    return KeyedProvider(key_file, make) if key_file else make(key), server


def _api(profile: RealProfile, connection: Connection) -> Api:
    match profile:
        case OpenAIProfile():
            return OpenAIApi(connection, profile.output_limit_field, profile.api)
        case AnthropicProfile():
            return AnthropicApi(connection, profile.prompt_cache)
        case GeminiProfile():
            return GeminiApi(connection, profile.thinking_budget)
        case OllamaProfile():
            return OllamaApi(connection, profile.context_tokens, profile.think)
        case _:
            assert_never(profile)


def _connection(profile: RealProfile, key: str | None) -> Connection:
    return Connection(
        model=profile.model,
        api_key=key,
        base_url=profile.base_url,
        max_in_flight=profile.max_in_flight,
        temperature=profile.temperature,
        check_model=profile.check_model,
        native=profile.dialect != "prompted",
    )
