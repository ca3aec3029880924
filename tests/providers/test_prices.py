"""Prices come from the settings, else from the list of known models, else money is not counted."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from genai_prices.types import Tier, TieredPrices
from pydantic import TypeAdapter

from services.settings.profiles import Profile
from services.worker.adapters import backends
from services.worker.adapters.providers.prices import _usd, known_tariff
from services.worker.core.attempt.plan import Tariff
from tests.providers.calls import StoppedClock

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("openai", "gpt-4o-mini", Tariff(0.15, 0.6)),
        ("openai", "gpt-4o-mini-2024-07-18", Tariff(0.15, 0.6)),
        ("anthropic", "claude-sonnet-4-5", Tariff(3.0, 15.0)),
        ("gemini", "gemini-2.5-flash", Tariff(0.3, 2.5)),
        ("openai", "made-up", None),
        ("openai", "claude-sonnet-4-5", None),
        ("ollama", "gpt-4o-mini", None),
        ("scripted", "gpt-4o-mini", None),
    ],
)
def test_known_models_have_a_tariff(provider: str, model: str, expected: Tariff | None) -> None:
    assert known_tariff(provider, model, NOW) == expected


def test_of_prices_in_tiers_the_highest_counts_that_a_call_can_reach() -> None:
    tiers = [Tier(start=100_000, price=Decimal(4)), Tier(start=200_000, price=Decimal(9))]

    assert _usd(TieredPrices(base=Decimal(2), tiers=tiers)) == 4.0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Tariff(0.15, 0.6)),
        ({"price": {"input_usd": 1, "output_usd": 2}}, Tariff(1.0, 2.0)),
        ({"price": {"input_usd": 0, "output_usd": 0}}, Tariff(0.0, 0.0)),
        ({"base_url": "http://localhost:8081/v1"}, None),
    ],
)
async def test_settings_win_and_a_server_of_ones_own_has_no_listed_price(
    changes: dict[str, Any], expected: Tariff | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    table = {"provider": "openai", "model": "gpt-4o-mini", **changes}
    profile: Profile = TypeAdapter(Profile).validate_python(table)

    backend = backends.build({"p": profile}, StoppedClock())["p"]

    assert backend.facts.tariff == expected
    await backend.provider.close()


async def test_a_prompt_that_is_kept_costs_what_its_writing_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    table = {"provider": "anthropic", "model": "m", "price": {"input_usd": 4, "output_usd": 20}}
    profile: Profile = TypeAdapter(Profile).validate_python({**table, "prompt_cache": True})

    backend = backends.build({"p": profile}, StoppedClock())["p"]

    assert backend.facts.tariff == Tariff(5.0, 20.0)
    await backend.provider.close()
