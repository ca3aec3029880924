"""A tariff of two prices, for tests that are about neither caches nor tiers."""

from services.worker.core.attempt.tariff import MICRO, STANDARD, Rates, Tariff, TierPrices


def flat(input_micro_usd: int, output_micro_usd: int) -> Tariff:
    """What a token of each costs; caches cost what input does."""
    read, written = input_micro_usd * MICRO, output_micro_usd * MICRO
    return Tariff({STANDARD: TierPrices(Rates(read, written, read, read, read))})
