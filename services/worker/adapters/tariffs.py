"""The prices of a profile's tokens: from its settings, else from a list."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from services.settings.profiles import (
    AnthropicProfile,
    GeminiProfile,
    OllamaProfile,
    OpenAILikeProfile,
    Price,
    Profile,
    ScriptedProfile,
    TokenPrice,
)
from services.worker.core.attempt.tariff import (
    STANDARD,
    Kept,
    Rates,
    Tariff,
    TierPrices,
    picodollars,
)

# What Anthropic takes for a token that its cache keeps, for five minutes and for an hour.
CACHE_WRITE_FACTORS = Decimal("1.25"), Decimal(2)


def tariff_of(profile: Profile, now: datetime) -> Tariff | None:
    """Its prices at that time; None where they are not known."""
    prices = _listed(profile, now) if profile.price is None else _own(profile, profile.price)
    if prices is None:
        return None
    return Tariff(prices, _asked(profile), _kept(profile))


def has_listed_price(profile: Profile) -> bool:
    """Whether its price, if it has one, is that of the list: other servers have their own."""
    if isinstance(profile, ScriptedProfile | OllamaProfile):
        return False
    return profile.price is None and profile.base_url is None


def prices_checked() -> date | None:
    """The last day on which a price of the list was held against its maker's."""
    from services.worker.adapters.providers.prices import last_check  # noqa: PLC0415

    return last_check()


def _listed(profile: Profile, now: datetime) -> Mapping[str, TierPrices] | None:
    if isinstance(profile, ScriptedProfile) or not has_listed_price(profile):
        return None
    # The list takes time to load, and profiles of scripts do not need it.
    from services.worker.adapters.providers.prices import known_prices  # noqa: PLC0415

    return known_prices(profile.provider, profile.model, now)


def _own(profile: Profile, price: Price) -> Mapping[str, TierPrices]:
    """What is not said costs as much as input; what Anthropic's caches keep, what it takes."""
    factors = CACHE_WRITE_FACTORS if isinstance(profile, AnthropicProfile) else (1, 1)
    tiers = [(STANDARD, price), *price.tiers.items()]
    return {name: TierPrices(_rates(tier, *factors)) for name, tier in tiers}


def _rates(price: TokenPrice, for_minutes: Decimal | int, for_hour: Decimal | int) -> Rates:
    read = Decimal(str(price.input_usd))

    def or_else(said: float | None, instead: Decimal) -> int:
        return picodollars(instead if said is None else Decimal(str(said)))

    return Rates(
        input=picodollars(read),
        output=or_else(price.output_usd, read),
        cached=or_else(price.cached_usd, read),
        cache_write=or_else(price.cache_write_usd, read * for_minutes),
        cache_write_1h=or_else(price.cache_write_1h_usd, read * for_hour),
    )


def _asked(profile: Profile) -> str:
    """The tier that it asks for, by the name that its price has."""
    match profile:
        case OpenAILikeProfile() | GeminiProfile():
            named = profile.service_tier
            return STANDARD if named in {None, "default"} else str(named)
        case AnthropicProfile() | OllamaProfile() | ScriptedProfile():
            return STANDARD
        case _:
            assert_never(profile)


def _kept(profile: Profile) -> Kept:
    """How long a cache keeps what a call may write to it."""
    match profile:
        case AnthropicProfile():
            if not profile.prompt_cache:
                return "not"
            return "hour" if profile.prompt_cache_ttl == "1h" else "minutes"
        case OpenAILikeProfile() | ScriptedProfile():
            return "minutes"
        case GeminiProfile() | OllamaProfile():
            return "not"
        case _:
            assert_never(profile)
