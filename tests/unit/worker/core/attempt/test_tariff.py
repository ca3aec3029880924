"""Prices by part, tier and length; what cannot be true, or is not said, costs what costs most."""

from dataclasses import replace

import pytest

from answerbus.budget import Usage
from services.worker.core.attempt.tariff import MICRO, Kept, Rates, Tariff, TierPrices
from tests.tariffs import flat

LIMIT = 1_000  # tokens of input from which the long price counts
STANDARD = TierPrices(
    Rates(4 * MICRO, 20 * MICRO, MICRO, 5 * MICRO, 8 * MICRO),
    ((LIMIT, Rates(8 * MICRO, 30 * MICRO, 2 * MICRO, 10 * MICRO, 16 * MICRO)),),
)
FLEX = TierPrices(Rates(2 * MICRO, 10 * MICRO, MICRO // 2, 2 * MICRO, 4 * MICRO))
PRIORITY = TierPrices(Rates(9 * MICRO, 40 * MICRO, 2 * MICRO, 9 * MICRO, 9 * MICRO))
TIERS = {"standard": STANDARD, "flex": FLEX, "priority": PRIORITY}
USAGE = Usage(input_tokens=100, output_tokens=10)
IN_FULL = "its provider counts more cached input than input: all input counts at the highest price"


def tariff(asked: str = "standard", kept: Kept = "minutes") -> Tariff:
    return Tariff(TIERS, asked, kept)


@pytest.mark.parametrize(
    ("parts", "served", "micro_usd"),
    [
        ({}, None, 600),
        ({}, "standard", 600),
        ({}, "flex", 300),
        ({}, "priority", 1_300),  # the maker served another tier than was asked for
        ({"cached_tokens": 60}, None, 40 * 4 + 60 + 200),
        ({"cache_write_tokens": 60}, None, 40 * 4 + 60 * 5 + 200),
        ({"cache_write_tokens": 60, "cache_write_1h_tokens": 20}, None, 160 + 200 + 160 + 200),
        ({"cached_tokens": 50, "cache_write_tokens": 50}, None, 50 + 250 + 200),
        ({"reasoning_tokens": 9}, None, 600),
        ({"input_tokens": LIMIT}, None, 4_200),
        ({"input_tokens": LIMIT + 1}, None, 8 * (LIMIT + 1) + 300),
        ({"cached_tokens": 1, "input_tokens": 1, "output_tokens": 0}, "flex", 1),  # rounded up
    ],
)
def test_a_call_costs_what_its_parts_cost(
    parts: dict[str, int], served: str | None, micro_usd: int
) -> None:
    priced, notes = tariff().priced(USAGE.model_copy(update=parts), served)

    assert (priced.micro_usd, notes) == (micro_usd, ())


@pytest.mark.parametrize(
    ("asked", "served", "said", "counts", "micro_usd"),
    [
        ("flex", None, "names no service tier", "standard", 600),
        ("priority", None, "names no service tier", "priority", 1_300),
        ("auto", None, "names no service tier", "priority", 1_300),
        ("standard", "turbo", "names the tier turbo, unpriced", "standard", 600),
        ("auto", "turbo", "names the tier turbo, unpriced", "priority", 1_300),
        ("none", "turbo", "names the tier turbo, unpriced", "priority", 1_300),
        ("unlisted", "unlisted", "names the tier unlisted, unpriced", "standard", 600),
    ],
)
def test_a_tier_without_a_name_or_a_price_costs_what_could_cost_most(
    asked: str, served: str | None, said: str, counts: str, micro_usd: int
) -> None:
    priced, notes = tariff(asked).priced(USAGE, served)

    assert priced.micro_usd == micro_usd
    assert notes == (f"its provider {said}: the price of the tier {counts} counts",)


@pytest.mark.parametrize(("input_tokens", "output_tokens"), [(100, 10), (10, 100)])
def test_the_tier_that_could_cost_most_is_the_one_for_the_usage(
    input_tokens: int, output_tokens: int
) -> None:
    rates = Rates(9 * MICRO, MICRO, MICRO, 9 * MICRO, 9 * MICRO)
    dear_input = TierPrices(rates)
    dear_output = TierPrices(replace(rates, input=MICRO, output=9 * MICRO))
    either = Tariff({"standard": dear_input, "priority": dear_output}, "auto")
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)

    assert either.priced(usage, None)[0].micro_usd == 9 * 100 + 10


@pytest.mark.parametrize("dearest", ["input", "cached", "cache_write", "cache_write_1h"])
@pytest.mark.parametrize(
    ("kept", "may_come"),
    [
        ("not", ("input", "cached")),
        ("minutes", ("input", "cached", "cache_write")),
        ("hour", ("input", "cached", "cache_write", "cache_write_1h")),
    ],
)
def test_the_dearest_input_is_that_of_the_parts_that_may_come(
    dearest: str, kept: Kept, may_come: tuple[str, ...]
) -> None:
    rates = replace(Rates(1, 1, 1, 1, 1), **{dearest: 2})

    assert rates.dearest_input(kept) == (2 if dearest in may_come else 1)


@pytest.mark.parametrize(("served", "micro_usd"), [(None, 600), ("priority", 1_300)])
def test_where_no_tier_is_asked_for_or_named_the_standard_price_counts(
    served: str | None, micro_usd: int
) -> None:
    priced, notes = tariff("none").priced(USAGE, served)

    assert (priced.micro_usd, notes) == (micro_usd, ())


def test_a_price_of_ones_own_counts_for_whatever_tier_is_named() -> None:
    assert flat(1, 4).priced(USAGE, "on_demand") == (
        USAGE.model_copy(update={"micro_usd": 140}),
        (),
    )


@pytest.mark.parametrize(
    "parts",
    [
        {"cached_tokens": 101},
        {"cached_tokens": 60, "cache_write_tokens": 60},
        {"cache_write_tokens": 10, "cache_write_1h_tokens": 11},
    ],
)
def test_parts_that_cannot_be_true_cost_what_input_costs_at_most(parts: dict[str, int]) -> None:
    priced, notes = tariff().priced(USAGE.model_copy(update=parts), None)

    assert priced.micro_usd == 100 * 5 + 200
    assert notes == (IN_FULL,)


def test_what_is_written_for_an_hour_costs_so_where_the_reply_does_not_say_for_how_long() -> None:
    usage = USAGE.model_copy(update={"cache_write_tokens": 50})

    assert tariff(kept="hour").priced(usage, None)[0].micro_usd == 50 * 4 + 50 * 8 + 200


@pytest.mark.parametrize("missing", ["input_tokens", "output_tokens"])
def test_what_is_not_reported_has_no_price(missing: str) -> None:
    usage = USAGE.model_copy(update={missing: None})

    assert tariff().priced(usage, "flex") == (usage, ())


def test_prices_of_zero_are_prices() -> None:
    usage = USAGE.model_copy(update={"cached_tokens": 5})

    assert flat(0, 0).priced(usage, None)[0].micro_usd == 0
    assert flat(0, 0).most(10**9, 10**9) == 0


@pytest.mark.parametrize(
    ("asked", "kept", "read", "most"),
    [
        ("standard", "not", 100, 100 * 4 + 200),
        ("standard", "minutes", 100, 100 * 5 + 200),  # all of it may be written to a cache
        ("standard", "hour", 100, 100 * 8 + 200),
        ("flex", "minutes", 100, 100 * 5 + 200),  # the standard tier may serve it
        ("priority", "minutes", 100, 100 * 9 + 400),
        ("auto", "minutes", 100, 100 * 9 + 400),
        ("none", "minutes", 100, 100 * 9 + 400),
        ("standard", "not", LIMIT + 1, 8 * (LIMIT + 1) + 300),
    ],
)
def test_the_worst_case_is_that_of_the_dearest_input_and_tier_that_may_come(
    asked: str, kept: Kept, read: int, most: int
) -> None:
    assert tariff(asked, kept).most(read, 10) == most
