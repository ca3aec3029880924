"""The bounds of a call of each profile of the settings: its output limit, and its price."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache

from services.operators.dead_letters.worst_case import CostOf, ProfileCost
from services.settings.profiles import Profile
from services.worker.adapters.tariffs import tariff_of


def profile_costs(profiles: Mapping[str, Profile], now_s: float) -> CostOf:
    """Prices are looked up when they are asked for: their list takes time to load."""
    now = datetime.fromtimestamp(now_s, UTC)

    @cache
    def cost_of(name: str) -> ProfileCost | None:
        profile = profiles.get(name)
        if profile is None:
            return None
        fallbacks = tuple(one.profile for one in profile.then)
        return ProfileCost(profile.max_output_tokens, tariff_of(profile, now), fallbacks)

    return cost_of
