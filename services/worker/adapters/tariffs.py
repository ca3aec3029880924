"""The prices of a profile's tokens: from its settings, else from a list."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

from services.settings.profiles import Price, Profile, ReachedProfile, ScriptedProfile, TokenPrice
from services.worker.adapters.providers.kinds.known import kind_of
from services.worker.core.attempt.tariff import (
    NO_TIER,
    STANDARD,
    Kept,
    Rates,
    Tariff,
    TierPrices,
    picodollars,
)


def tariff_of(profile: Profile, now: datetime) -> Tariff | None:
    """Its prices at that time; None where they are not known."""
    if isinstance(profile, ScriptedProfile):
        own = profile.price and _own(profile.price, (Decimal(1), Decimal(1)))
        return Tariff(own, STANDARD, "minutes") if own else None
    kind, price = kind_of(profile), profile.price
    prices = _own(price, kind.cache_write_factors()) if price else _listed(profile, now)
    if not prices:
        return None
    asked, kept = kind.asked_tier(profile), kind.kept(profile)
    if price and profile.base_url is not None:  # a gateway may do what its caller did not ask for
        names_tier = getattr(profile, "service_tier", None) is not None
        asked = NO_TIER if asked == STANDARD and not names_tier else asked
        kept = _kept_by_gateway(price, kind.cache_write_factors())
    return Tariff(prices, asked, kept)


def has_listed_price(profile: Profile) -> bool:
    """Whether its price, if it has one, is that of the list: other servers have their own."""
    if isinstance(profile, ScriptedProfile) or profile.price is not None:
        return False
    return kind_of(profile).listed(profile) is not None


def prices_checked() -> date | None:
    """The last day on which a price of the list was held against its maker's."""
    from services.worker.adapters.providers.prices import last_check  # noqa: PLC0415

    return last_check()


def _listed(profile: ReachedProfile, now: datetime) -> Mapping[str, TierPrices] | None:
    listed = kind_of(profile).listed(profile)
    if listed is None:
        return None
    # The list takes time to load, and profiles of servers of one's own do not need it.
    from services.worker.adapters.providers.prices import known_prices  # noqa: PLC0415

    return known_prices(*listed, now)


def _kept_by_gateway(price: Price, factors: tuple[Decimal, Decimal]) -> Kept:
    """For an hour where that may cost more, since a call must not cost more than it reserved."""
    for_minutes, for_hour = factors
    all_prices = (price, *price.tiers.values())
    is_named = any(it.cache_write_1h_usd is not None for it in all_prices)
    return "hour" if is_named or for_hour > for_minutes else "minutes"


def _own(price: Price, factors: tuple[Decimal, Decimal]) -> Mapping[str, TierPrices]:
    """What is not said costs as much as input; what a cache keeps, what its maker takes for it."""
    tiers = [(STANDARD, price), *price.tiers.items()]
    return {name: TierPrices(_rates(tier, *factors)) for name, tier in tiers}


def _rates(price: TokenPrice, for_minutes: Decimal, for_hour: Decimal) -> Rates:
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
