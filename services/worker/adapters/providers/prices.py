"""The prices of known models, from a list in a package: nothing is downloaded."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice
from genai_prices.types import TieredPrices as ByLength

from services.worker.core.attempt.tariff import STANDARD, Rates, TierPrices, picodollars

_TIERS = {
    "flex": {"service_tier": "flex"},
    "priority": {"service_tier": "priority"},
    "batch": {"processing": "batch"},
}
_CHECKED = re.compile(r"(?:[Cc]hecked|[Vv]erified)[^.;]{0,20}?([0-9]{4}-[01][0-9]-[0-3][0-9])")
# The parts of a price, and which price a part has where the list names none.
_PARTS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}
_INSTEAD = {"cached": "input", "cache_write": "input", "cache_write_1h": "cache_write"}


def known_prices(vendor: str, model: str, now: datetime) -> Mapping[str, TierPrices] | None:
    """A model's prices at a vendor, by tier; None where the list has none."""
    try:
        _, found = get_snapshot().find_provider_model(model, None, vendor, None)
    except LookupError:
        return None
    standard = _tier(found.get_prices(now))
    if standard is None:
        return None
    tiers = {STANDARD: standard}
    for name, context in _TIERS.items():
        if _has_variant(found, context, now) and (tier := _tier(found.get_prices(now, context))):
            tiers[name] = tier
    return tiers


def last_check() -> date | None:
    """The last day on which those who keep the list held one of its prices against its maker's.

    Days from which prices hold say less: a list also names prices to come.
    """
    comments = (
        model.price_comments or "" for one in get_snapshot().providers for model in one.models
    )
    days = {day for comment in comments for day in _CHECKED.findall(comment)}
    return max(map(date.fromisoformat, days), default=None)


def _has_variant(model: ModelInfo, context: Mapping[str, str], now: datetime) -> bool:
    return any(
        variant.when == context and (variant.constraint is None or variant.constraint.active(now))
        for variant in model.price_variants or ()
    )


def _tier(listed: ModelPrice) -> TierPrices | None:
    """None without a price of input or of output."""
    prices = {part: getattr(listed, key) for part, key in _PARTS.items()}
    if prices["input"] is None or prices["output"] is None:
        return None
    for part, other in _INSTEAD.items():
        prices[part] = prices[other] if prices[part] is None else prices[part]
    by_length = [price for price in prices.values() if isinstance(price, ByLength)]
    limits = sorted({tier.start for price in by_length for tier in price.tiers})
    return TierPrices(_rates(prices, 0), tuple((at, _rates(prices, at + 1)) for at in limits))


def _rates(prices: Mapping[str, Decimal | ByLength], input_tokens: int) -> Rates:
    return Rates(**{part: picodollars(_usd(price, input_tokens)) for part, price in prices.items()})


def _usd(price: Decimal | ByLength, input_tokens: int) -> Decimal:
    """Dollars per million tokens, in a call of so much input."""
    if isinstance(price, Decimal):
        return price
    return [price.base, *(tier.price for tier in price.tiers if input_tokens > tier.start)][-1]
