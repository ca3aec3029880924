"""The backends of a worker: built from its profiles, checked, and replaced while it runs."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never, get_args

from services.settings.profiles import PricedTier, Profile, asks_alike
from services.settings.secrets import secrets_of_profiles
from services.settings.settings import SetUpError
from services.worker.adapters.building import BackendContext, backend_of
from services.worker.adapters.providers.keys import key_files
from services.worker.core.attempt.tariff import Tariff
from services.worker.planning.planner import Backend, BackendChange
from services.worker.ports.clock import Clock
from services.worker.ports.provider import NotReady, Ready, Unhealthy

_UNPRICED = (
    "its service tier `{0}` has no price, so that budgets count its calls at the standard one: set "
    "`price`, with `tiers.{0}`"
)
# Servers with a dialect of their own: what they call themselves, their name and the dialect.
_ENGINES = {"llamacpp": ("llama.cpp", "llama_cpp"), "vllm": ("vLLM", "vllm")}


async def started(
    profiles: Mapping[str, Profile], context: BackendContext
) -> tuple[dict[str, Backend], list[str]]:
    """Backends whose profiles were checked, and sentences on what is amiss but stops no profile.

    Raises SetUpError that names all profiles which can never work.
    """
    built, faults = _built(profiles, context)
    return built, await _usable(built, faults, checked=built)


async def changed(
    known: Mapping[str, Profile], profiles: Mapping[str, Profile], context: BackendContext
) -> tuple[BackendChange, list[str]]:
    """What is to be done so that `wanted` are in force, and sentences as of `started`.

    Nothing is done yet. A profile that asks as before is not checked: its provider may be away just
    now. Raises SetUpError as `started` does.
    """
    fresh = {name: profile for name, profile in profiles.items() if known.get(name) != profile}
    alike = {name for name in fresh.keys() & known if asks_alike(known[name], fresh[name])}
    _require_any(profiles)
    built, faults = _built(fresh, context) if fresh else ({}, [])
    checked = {name: backend for name, backend in built.items() if name not in alike}
    problems = await _usable(built, faults, checked)
    return BackendChange(built, frozenset(alike), frozenset(known.keys() - profiles)), problems


def build(profiles: Mapping[str, Profile], clock: Clock) -> dict[str, Backend]:
    """One backend a profile. Raises SetUpError that names all that cannot be built."""
    built, faults = _built(profiles, BackendContext(clock))
    _refuse(faults)
    return built


async def close(backends: Mapping[str, Backend]) -> None:
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


async def _usable(
    built: Mapping[str, Backend], faults: Sequence[str], checked: Mapping[str, Backend]
) -> list[str]:
    """What is amiss with `checked` and stops none of them; with a fault, all that was built ends.

    Raises SetUpError.
    """
    try:
        found = await _checked(checked)
        _refuse([*faults, *found.faults])
    except BaseException:
        await close(built)
        raise
    return [*found.unhealthy, *found.advice]


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
                if software in _ENGINES and backend.dialect == "openai":
                    advice.append(f"Profile `{name}`: {_advice(*_ENGINES[software])}")
                if tier := _unpriced_tier(backend.facts.tariff):
                    advice.append(f"Profile `{name}`: {_UNPRICED.format(tier)}")
            case _:
                assert_never(readiness)
    return StartFindings(tuple(faults), tuple(unhealthy), tuple(advice))


def _unpriced_tier(tariff: Tariff | None) -> str | None:
    """The tier that is asked for, where it could have a price and has none."""
    if tariff is None or tariff.asked in tariff.tiers or tariff.asked not in get_args(PricedTier):
        return None
    return tariff.asked


def _advice(engine: str, dialect: str) -> str:
    return f'the server is {engine}, which enforces more of a schema with `dialect = "{dialect}"`'


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise SetUpError("\n".join(faults))


def _require_any(profiles: Mapping[str, Profile]) -> None:
    if not profiles:
        raise SetUpError(
            "No profile is configured: add a table [profiles.default] to answerbus.toml that "
            "names a provider and a model."
        )


def _built(
    profiles: Mapping[str, Profile], context: BackendContext
) -> tuple[dict[str, Backend], list[str]]:
    """Backends, and a sentence for each profile that cannot have one."""
    _require_any(profiles)
    files, faults_of_files = key_files(profiles)
    faults = [*faults_of_files.values()]
    context.mask.learn(secrets_of_profiles(profiles), [*files.values()])
    built = {}
    for name, profile in profiles.items():
        if name in faults_of_files:
            continue
        try:
            built[name] = backend_of(name, profile, context, files.get(name))
        except SetUpError as error:
            faults.append(str(error))
    return built, faults
