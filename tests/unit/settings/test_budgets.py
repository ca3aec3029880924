"""Budgets in the settings: names, windows, and what is refused at start."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from answerbus.limits import LABEL_CHARS_MAX
from services.settings.settings import Settings
from services.worker.adapters.budget_rules import budget_rules
from services.worker.core.shared_budget.rules import BudgetKey, BudgetRules

NOW = datetime(2026, 11, 30, 23, 59, 59, 999_000, tzinfo=UTC)


def rules(**budgets: object) -> BudgetRules:
    return budget_rules(Settings.model_validate({"budgets": budgets}).budgets)


def test_an_exact_name_comes_before_any_value_and_no_label_has_a_rule_of_its_own() -> None:
    found = rules(
        **{
            "tenant:*": {"usd": {"day": 50, "month": 900}},
            "tenant:acme": {"calls": {"day": 7}},
            "tenant:": {"tokens": {"month": 1_000}},
            "team:red": {"usd": {"day": 0.000001}},
        }
    )

    def limits(**labels: str) -> dict[str, object]:
        keys = found.keys_of(labels, NOW)
        return {f"{key.budget} {key.window}": found.limit(key) for key in keys}

    assert limits(tenant="acme") == {"tenant:acme 2026-11-30": (7, None, None)}
    assert limits(tenant="acme-labs", team="red") == {
        "team:red 2026-11-30": (None, None, 1),
        "tenant:acme-labs 2026-11": (None, None, 900_000_000),
        "tenant:acme-labs 2026-11-30": (None, None, 50_000_000),
    }
    assert limits(team="blue") == {"tenant: 2026-11": (None, 1_000, None)}


def test_all_claim_in_one_order_whatever_the_order_of_settings_and_labels() -> None:
    budget = {"calls": {"day": 1, "month": 2}}
    one = rules(**{"tenant:*": budget, "team:*": budget})
    other = rules(**{"team:*": budget, "tenant:*": budget})

    keys = one.keys_of({"tenant": "a", "team": "b"}, NOW)

    assert keys == tuple(sorted(keys)) == other.keys_of({"team": "b", "tenant": "a"}, NOW)


def test_windows_are_of_utc_wherever_the_clock_is_read() -> None:
    zone = datetime.fromisoformat("2026-12-01T00:59:59.999+01:00")

    assert zone == NOW
    assert not BudgetKey("tenant:a", "2026-11").is_over(zone)
    assert BudgetKey("tenant:a", "2026-11-29").is_over(zone)
    assert BudgetKey("tenant:a", "2026-11").is_over(NOW.replace(month=12, day=1))


@pytest.mark.parametrize(
    ("name", "budget", "said"),
    [
        ("acme", {}, "must be a label and its value"),
        (":acme", {}, "must be a label and its value"),
        ("tenant:" + "a" * (LABEL_CHARS_MAX + 1), {}, "of at most 256 characters each"),
        ("tenant:*", {"usd": {"day": -1}}, "greater than or equal to 0"),
        ("tenant:*", {"usd": {"week": 1}}, "Extra inputs are not permitted"),
        ("tenant:*", {"calls": {"day": 1.5}}, "valid integer"),
        ("tenant:*", {"usd": {"day": float("nan")}}, "finite"),
        ("tenant:*", {"usd": {"month": 0.0000004}}, "must be 0, or at least 0.000001"),
    ],
    ids=["no label", "empty label", "long", "negative", "week", "half a call", "nan", "tiny"],
)
def test_a_wrong_budget_is_an_error_at_start(name: str, budget: object, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        rules(**{name: budget})
