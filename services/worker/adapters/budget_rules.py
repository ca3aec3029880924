"""The rules of shared budgets, as the settings say them."""

from collections import defaultdict
from collections.abc import Mapping

from services.settings.budgets import BudgetSettings
from services.settings.section import MICRO_USD
from services.worker.core.shared_budget.rules import BudgetRules, PeriodLimits


def budget_rules(budgets: Mapping[str, BudgetSettings]) -> BudgetRules:
    """By label, then by value; money in whole millionths of a dollar."""
    by_label: dict[str, dict[str, PeriodLimits]] = defaultdict(dict)
    for name, budget in budgets.items():
        label, _, value = name.partition(":")
        usd, tokens, calls = budget.usd, budget.tokens, budget.calls
        by_label[label][value] = PeriodLimits(
            day=(calls.day, tokens.day, _micro_usd(usd.day)),
            month=(calls.month, tokens.month, _micro_usd(usd.month)),
        )
    return BudgetRules(dict(by_label))


def _micro_usd(usd: float | None) -> int | None:
    return None if usd is None else round(usd * MICRO_USD)
