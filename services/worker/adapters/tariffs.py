"""The price of a profile's tokens: from its settings, else from a list."""

from dataclasses import replace
from datetime import datetime

from services.settings.profiles import AnthropicProfile, Profile, ScriptedProfile
from services.worker.adapters.providers.apis.anthropic import CACHE_WRITE_FACTOR
from services.worker.core.attempt.plan import Tariff


def tariff_of(profile: Profile, now: datetime) -> Tariff | None:
    """The price of its tokens at that time; None where it is not known.

    All input has the price of what is written to a cache, so that a budget never ends too late.
    """
    tariff = _listed(profile, now)
    if tariff is None or not isinstance(profile, AnthropicProfile) or not profile.prompt_cache:
        return tariff
    return replace(tariff, input_micro_usd=tariff.input_micro_usd * CACHE_WRITE_FACTOR)


def _listed(profile: Profile, now: datetime) -> Tariff | None:
    if profile.price is not None:
        return Tariff(profile.price.input_usd, profile.price.output_usd)
    if isinstance(profile, ScriptedProfile) or profile.base_url is not None:
        return None  # another server has prices of its own
    # The list takes time to load, and profiles of scripts do not need it.
    from services.worker.adapters.providers.prices import known_tariff  # noqa: PLC0415

    return known_tariff(profile.provider, profile.model, now)
