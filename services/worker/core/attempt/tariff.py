"""The cost of a call: a function of its usage, its model's prices, and its tier; pure.

Prices are whole picodollars, so that sums are exact: a list names up to six decimals of a dollar
for a million tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Literal

from answerbus.budget import Usage

STANDARD = "standard"  # the tier that every tariff has
ANY_TIER = "auto"  # asked for where the maker's own settings decide
NO_TIER = "none"  # none is asked for: a deployment or a gateway decides, most often the standard
MICRO = 1_000_000  # picodollars of a micro-dollar
Kept = Literal["not", "minutes", "hour"]  # how long a cache keeps what a call may write to it


@dataclass(frozen=True, slots=True)
class Rates:
    """The price of a token of each part; thoughts have that of the output with every maker."""

    input: int
    output: int
    cached: int
    cache_write: int
    cache_write_1h: int

    def read(self, usage: Usage, kept: Kept) -> int | None:
        """The price of all input; None where its parts cannot be true."""
        cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        for_hour = usage.cache_write_1h_tokens
        if for_hour is None:  # the maker does not say it, so all that was asked for counts
            for_hour = written if kept == "hour" else 0
        plain = (usage.input_tokens or 0) - cached - written
        if plain < 0 or for_hour > written:
            return None
        return (
            plain * self.input
            + cached * self.cached
            + (written - for_hour) * self.cache_write
            + for_hour * self.cache_write_1h
        )

    def dearest_input(self, kept: Kept) -> int:
        """The highest price of a token of input."""
        match kept:
            case "not":
                return max(self.input, self.cached)
            case "minutes":
                return max(self.input, self.cached, self.cache_write)
            case "hour":
                return max(self.input, self.cached, self.cache_write, self.cache_write_1h)


@dataclass(frozen=True, slots=True)
class TierPrices:
    """The rates of one tier; in a call of more input than a limit in `longer`, all have those."""

    rates: Rates
    longer: tuple[tuple[int, Rates], ...] = ()  # by tokens of input, ascending

    def of(self, input_tokens: int) -> Rates:
        """Those of a call of so much input."""
        return self.up_to(input_tokens)[-1]

    def up_to(self, input_tokens: int) -> tuple[Rates, ...]:
        """Those of all calls of at most so much."""
        if not self.longer:
            return (self.rates,)
        return self.rates, *(rates for above, rates in self.longer if input_tokens > above)


@dataclass(frozen=True, slots=True)
class Tariff:
    """The prices of a model, by tier; `asked` is the tier that its profile asks for.

    A maker may serve another: the standard one for each, and any of them for `auto`, or for none.
    """

    tiers: Mapping[str, TierPrices]
    asked: str = STANDARD
    kept: Kept = "minutes"

    def most(self, read: int, written: int) -> int:
        """The most that a call of at most so many tokens can cost, in micro-dollars, rounded up."""
        of_input, of_output = self.dearest(read)
        return micro_dollars(read * of_input + written * of_output)

    def dearest(self, input_tokens: int) -> tuple[int, int]:
        """A token of input and one of output, in picodollars, in calls of at most so much input."""
        rates = [one for tier in self._possible for one in self.tiers[tier].up_to(input_tokens)]
        of_input = max(one.dearest_input(self.kept) for one in rates)
        return of_input, max(one.output for one in rates)

    def priced(self, usage: Usage, served: str | None) -> tuple[Usage, tuple[str, ...]]:
        """Usage with its cost and what caches saved of it, and notes where a figure is assumed.

        What cannot be true, or is not said, counts as what costs most; `served` is the tier that
        the maker named.
        """
        if usage.input_tokens is None or usage.output_tokens is None:
            return usage, ()
        tier, notes = self._served(served, usage)
        rates = self.tiers[tier].of(usage.input_tokens)
        written, read = usage.output_tokens * rates.output, rates.read(usage, self.kept)
        if read is None:
            notes = (*notes, f"its provider counts more cached input than input: {_IN_FULL}")
            read = usage.input_tokens * rates.dearest_input(self.kept)
        costs: dict[str, int] = {"micro_usd": micro_dollars(read + written)}
        if usage.cached_tokens or usage.cache_write_tokens:
            without = micro_dollars(usage.input_tokens * rates.input + written)
            costs["cache_saved_micro_usd"] = without - costs["micro_usd"]
        return usage.model_copy(update=costs), notes

    @property
    def _possible(self) -> tuple[str, ...]:
        """The tiers that may serve what is asked for."""
        if self.asked in {ANY_TIER, NO_TIER}:
            return tuple(self.tiers)
        is_known = self.asked != STANDARD and self.asked in self.tiers
        return (self.asked, STANDARD) if is_known else (STANDARD,)

    def _served(self, served: str | None, usage: Usage) -> tuple[str, tuple[str, ...]]:
        """The tier whose prices count."""
        if served is not None and served in self.tiers:
            return served, ()
        if self.asked in {STANDARD, NO_TIER} and (served is None or len(self.tiers) == 1):
            return STANDARD, ()
        dearest = max(self._possible, key=lambda tier: self._with_full_input(tier, usage))
        said = "names no service tier" if served is None else f"names the tier {served}, unpriced"
        return dearest, (f"its provider {said}: the price of the tier {dearest} counts",)

    def _with_full_input(self, tier: str, usage: Usage) -> int:
        read, written = usage.input_tokens or 0, usage.output_tokens or 0
        rates = self.tiers[tier].of(read)
        return read * rates.input + written * rates.output


_IN_FULL = "all input counts at the highest price"


def picodollars(usd_per_million: Decimal) -> int:
    """Of one token, from dollars for a million of them; rounded up."""
    return int((usd_per_million * MICRO).to_integral_value(ROUND_CEILING))


def micro_dollars(picodollars: int) -> int:
    """Rounded up."""
    return -(-picodollars // MICRO)
