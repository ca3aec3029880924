"""The doctor names a list of prices that is older than 30 days, where a profile needs it."""

from datetime import date

import pytest
from pydantic import TypeAdapter

from services.commands.doctor.findings.facts import Finding
from services.commands.doctor.findings.price_list import price_list_finding
from services.settings.profiles import Profile
from services.worker.adapters.tariffs import has_listed_price

CHECKED = date(2026, 11, 3)
REMEDY = "upgrade the package genai-prices, or give profiles a `price`"


@pytest.mark.parametrize(
    ("checked", "today", "expected"),
    [
        (
            CHECKED,
            date(2026, 12, 3),
            Finding("prices", "ok", "the list of prices was last checked on 2026-11-03"),
        ),
        (
            CHECKED,
            date(2026, 12, 4),
            Finding(
                "prices",
                "warning",
                f"the list of prices was last checked on 2026-11-03, 31 days ago: {REMEDY}",
            ),
        ),
        (
            None,
            CHECKED,
            Finding("prices", "warning", f"the list does not say how old it is: {REMEDY}"),
        ),
    ],
)
def test_a_list_is_old_after_30_days(checked: date | None, today: date, expected: Finding) -> None:
    assert price_list_finding(checked, today) == expected


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"provider": "openai", "model": "m"}, True),
        ({"provider": "openai", "model": "m", "base_url": "http://h/v1"}, False),
        ({"provider": "gemini", "model": "m", "price": {"input_usd": 1, "output_usd": 1}}, False),
        ({"provider": "ollama", "model": "m"}, False),
        ({"provider": "scripted", "script": "s.json"}, False),
    ],
)
def test_a_profile_needs_the_list_at_its_makers_own_server(
    profile: dict[str, object], *, expected: bool
) -> None:
    found: Profile = TypeAdapter(Profile).validate_python(profile)

    assert has_listed_price(found) == expected
