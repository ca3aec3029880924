"""The prices of known models, from a list in a package: nothing is downloaded."""

from datetime import datetime
from decimal import Decimal

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import TieredPrices

from services.worker.core.attempt.plan import Tariff

# Where prices grow with the length of a call, those of longer calls than ours play no part: a
# request is at most 512 KiB, and no usual text makes more tokens of that.
CALL_TOKENS_MAX = 200_000
_VENDORS = {"gemini": "google"}  # where the list has another name


def known_tariff(provider: str, model: str, now: datetime) -> Tariff | None:
    """The tariff of a model at its maker's own API; None where the list has none."""
    vendor = _VENDORS.get(provider, provider)
    try:
        _, found = get_snapshot().find_provider_model(model, None, vendor, None)
    except LookupError:
        return None
    listed = found.get_prices(now)
    read, written = (_usd(getattr(listed, name, None)) for name in ("input_mtok", "output_mtok"))
    return None if read is None or written is None else Tariff(read, written)


def _usd(price: Decimal | TieredPrices | None) -> float | None:
    """Dollars per million tokens, the most that a call of ours can come to."""
    match price:
        case TieredPrices():
            tiers = [tier.price for tier in price.tiers if tier.start < CALL_TOKENS_MAX]
            return float(max([price.base, *tiers]))
        case Decimal():
            return float(price)
        case None:
            return None
