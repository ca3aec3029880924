"""What the simulated provider bills: it serves in two tiers, and reads a part of prompts cached."""

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from answerbus.topics import ATTEMPTS
from services.worker.core.attempt.reply import CallFacts
from services.worker.core.attempt.tariff import MICRO, STANDARD, Rates, Tariff, TierPrices
from tests.chaos.audit.record import Record

# A token of input, of output, and of input from the cache, in micro-dollars.
STANDARD_PRICES, FLEX_PRICES = (4, 16, 1), (2, 8, 0)


def tariff(times: int = 1) -> Tariff:
    """Of a profile that costs so many times as much as the first one."""

    def prices(read: int, written: int, cached: int) -> TierPrices:
        unit = times * MICRO
        plain = read * unit
        return TierPrices(Rates(plain, written * unit, cached * unit, plain, plain))

    return Tariff({STANDARD: prices(*STANDARD_PRICES), "flex": prices(*FLEX_PRICES)}, "flex")


def served(facts: CallFacts, name: str) -> CallFacts:
    """By which tier, and how much of it from a cache: by the name of the call alone."""
    if facts.usage.input_tokens is None:
        return facts
    chance = zlib.crc32(name.encode())
    cached = facts.usage.model_copy(update={"cached_tokens": chance // 2 % 5 or None})
    return replace(facts, usage=cached, service_tier=(STANDARD, "flex")[chance % 2])


def billed(facts: CallFacts) -> int:
    """The provider's own formula, in micro-dollars."""
    usage = facts.usage
    read, written, cached = FLEX_PRICES if facts.service_tier == "flex" else STANDARD_PRICES
    from_cache = usage.cached_tokens or 0
    plain = (usage.input_tokens or 0) - from_cache
    return plain * read + from_cache * cached + (usage.output_tokens or 0) * written


def wrongly_charged(
    records: Iterable[Record], bills: dict[tuple[str, str, int], int]
) -> Iterator[str]:
    """Attempts whose account was not charged what the provider billed for their call."""
    for record in records:
        if record.topic != ATTEMPTS.name:
            continue
        made = json.loads(record.value or b"")
        bill = bills.get((made["workflow_id"], made["request_id"], made["attempt"]))
        is_reported = made["usage"]["input_tokens"] is not None
        if is_reported and made["charged"]["micro_usd"] != bill:
            yield f"{made['event_id']} was charged {made['charged']['micro_usd']}, billed {bill}"
