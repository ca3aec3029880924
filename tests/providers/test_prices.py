"""Prices come from the settings, else from the list of known models, else money is not counted."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import pytest
from genai_prices.data_snapshot import get_snapshot
from pydantic import TypeAdapter

from answerbus.budget import Usage
from services.settings.profiles import AzureProfile, Profile
from services.worker.adapters import backends
from services.worker.adapters.providers.kinds.azure import AzureKind
from services.worker.adapters.providers.prices import known_prices, last_check
from services.worker.adapters.tariffs import tariff_of
from services.worker.core.attempt.tariff import MICRO, Kept, Rates, Tariff, TierPrices
from tests.providers.calls import StoppedClock

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def rates(*usd: float) -> Rates:
    return Rates(*(int(one * MICRO) for one in usd))


SONNET = rates(3, 15, 0.3, 3.75, 6)
LONG = rates(6, 22.5, 0.6, 7.5, 12)


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("openai", "gpt-4o-mini", TierPrices(rates(0.15, 0.6, 0.075, 0.15, 0.15))),
        ("openai", "gpt-4o-mini-2024-07-18", TierPrices(rates(0.15, 0.6, 0.075, 0.15, 0.15))),
        ("anthropic", "claude-sonnet-4-5", TierPrices(SONNET, ((200_000, LONG),))),
        ("google", "gemini-2.5-flash", TierPrices(rates(0.3, 2.5, 0.03, 0.3, 0.3))),
        ("openai", "made-up", None),
        ("openai", "claude-sonnet-4-5", None),
        ("ollama", "gpt-4o-mini", None),
        ("scripted", "gpt-4o-mini", None),
    ],
)
def test_known_models_have_prices(provider: str, model: str, expected: TierPrices | None) -> None:
    found = known_prices(provider, model, NOW)

    assert (found and found["standard"]) == expected


def test_a_tier_has_prices_where_the_list_names_them() -> None:
    small, large = (known_prices("openai", model, NOW) for model in ("gpt-4o-mini", "gpt-5"))

    assert small
    assert large
    assert set(small) == {"standard", "priority", "batch"}
    assert large["flex"] == TierPrices(rates(0.625, 5, 0.0625, 0.625, 0.625))


def test_the_list_says_when_it_was_last_held_against_its_makers_pages() -> None:
    comments = [m.price_comments or "" for p in get_snapshot().providers for m in p.models]
    checked = last_check()

    assert checked is not None
    assert date(2026, 11, 1) <= checked
    assert any(f"{checked:%Y-%m-%d}" in comment for comment in comments)


def profile(table: Mapping[str, Any]) -> Profile:
    found: Profile = TypeAdapter(Profile).validate_python(table)
    return found


OPENAI = {"provider": "openai", "model": "gpt-4o-mini"}
OWN = {"input_usd": 1, "output_usd": 2}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"price": OWN}, {"standard": TierPrices(rates(1, 2, 1, 1, 1))}),
        (
            {"price": {**OWN, "cached_usd": 0.1, "cache_write_usd": 1.25}},
            {"standard": TierPrices(rates(1, 2, 0.1, 1.25, 1))},
        ),
        (
            {"price": {**OWN, "tiers": {"flex": {"input_usd": 0.5, "output_usd": 1}}}},
            {
                "standard": TierPrices(rates(1, 2, 1, 1, 1)),
                "flex": TierPrices(rates(0.5, 1, 0.5, 0.5, 0.5)),
            },
        ),
        (
            {"price": {"input_usd": 0, "output_usd": 0}},
            {"standard": TierPrices(rates(0, 0, 0, 0, 0))},
        ),
    ],
)
async def test_settings_win(
    changes: dict[str, Any], expected: Mapping[str, TierPrices], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    backend = backends.build({"p": profile({**OPENAI, **changes})}, StoppedClock())["p"]

    assert backend.facts.tariff == Tariff(expected)
    await backend.provider.close()


def test_geminis_longer_names_of_models_have_the_same_price() -> None:
    names = ("gemini-2.5-flash", "models/gemini-2.5-flash")
    short, long = (tariff_of(profile({"provider": "gemini", "model": it}), NOW) for it in names)

    assert short is not None
    assert long == short


def test_a_server_of_ones_own_has_no_listed_price() -> None:
    assert tariff_of(profile({**OPENAI, "base_url": "http://localhost:8081/v1"}), NOW) is None


AZURE = {"provider": "azure", "resource": "ours", "model": "d", "priced_as": "gpt-4.1"}
GATEWAY = {**OPENAI, "base_url": "http://localhost:8081/v1", "price": OWN}
ELSEWHERE = {"base_url": "http://localhost:8081"}
CLAUDE = {"provider": "anthropic", "model": "m", "price": {"input_usd": 4, "output_usd": 20}}


@pytest.mark.parametrize(
    ("changes", "asked", "kept"),
    [
        (CLAUDE, "standard", "not"),
        ({**CLAUDE, "prompt_cache": True}, "standard", "minutes"),
        ({**CLAUDE, "prompt_cache": True, "prompt_cache_ttl": "1h"}, "standard", "hour"),
        ({**CLAUDE, "service_tier": "auto"}, "standard", "not"),  # it has no dearer one
        (OPENAI, "standard", "minutes"),
        ({**OPENAI, "service_tier": "default"}, "standard", "minutes"),
        ({**OPENAI, "service_tier": "auto"}, "auto", "minutes"),
        ({**OPENAI, "service_tier": "flex"}, "flex", "minutes"),
        (AZURE, "none", "minutes"),  # a deployment may have priority as its own tier
        ({**AZURE, "service_tier": "default"}, "standard", "minutes"),
        (GATEWAY, "none", "minutes"),
        ({**CLAUDE, **ELSEWHERE}, "none", "hour"),  # a gateway may mark what it caches
        ({**CLAUDE, **ELSEWHERE, "prompt_cache": True}, "none", "hour"),
        ({**CLAUDE, **ELSEWHERE, "service_tier": "standard_only"}, "standard", "hour"),
        ({**CLAUDE, **ELSEWHERE, "price": {**OWN, "cache_write_1h_usd": 2}}, "none", "hour"),
        ({"provider": "gemini", "model": "gemini-2.5-flash"}, "standard", "not"),
        (
            {"provider": "gemini", "model": "gemini-2.5-flash", "service_tier": "priority"},
            "priority",
            "not",
        ),
    ],
)
def test_what_a_call_may_cost_follows_from_what_its_profile_asks_for(
    changes: dict[str, Any], asked: str, kept: Kept
) -> None:
    found = tariff_of(profile(changes), NOW)

    assert found is not None
    assert (found.asked, found.kept) == (asked, kept)


@pytest.mark.parametrize("asked", [{}, {"prompt_cache": True}])
def test_what_a_gateway_writes_to_a_cache_is_within_what_the_call_reserved(
    asked: dict[str, Any],
) -> None:
    """Also where it writes for an hour, which its caller did not ask for."""
    found = tariff_of(profile({**CLAUDE, **ELSEWHERE, **asked}), NOW)
    for_minutes = Usage(
        input_tokens=1_000, output_tokens=10, cache_write_tokens=1_000, cache_write_1h_tokens=0
    )
    for_hour = for_minutes.model_copy(update={"cache_write_1h_tokens": 1_000})

    assert found is not None
    assert found.priced(for_minutes, None)[0].micro_usd == 5_200
    assert found.priced(for_hour, None)[0].micro_usd == found.most(1_000, 10) == 8_200


class Untiered(AzureKind):
    """As a plug-in may be, of a vendor without tiers."""

    def fields(self, profile: AzureProfile) -> dict[str, Any]:
        return {k: v for k, v in super().fields(profile).items() if k != "service_tier"}


def test_a_vendor_may_have_no_tiers() -> None:
    found = AzureProfile.model_validate(AZURE)

    assert Untiered().asked_tier(found) == "none"


def test_what_anthropics_cache_takes_follows_from_the_price_of_input() -> None:
    found = tariff_of(profile(CLAUDE), NOW)

    assert found is not None
    assert found.tiers == {"standard": TierPrices(rates(4, 20, 4, 5, 8))}
