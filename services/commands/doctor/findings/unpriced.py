"""Profiles whose calls no budget in dollars counts; pure."""

from collections.abc import Mapping, Sequence

from services.commands.doctor.findings.facts import Finding
from services.settings.agents import AgentSettings
from services.settings.budgets import BudgetSettings, UsdLimits

NAMES_SHOWN_MAX = 3


def budgets_finding(
    budgets: Mapping[str, BudgetSettings],
    agents: Mapping[str, AgentSettings],
    unpriced: Sequence[str],
) -> Finding | None:
    """Whether budgets of labels and agents in dollars hold for all profiles; None without any."""
    in_dollars = [name for name, budget in budgets.items() if budget.usd != UsdLimits()]
    in_dollars += [f"agents.{it}" for it, one in agents.items() if one.budget.micro_usd is not None]
    if not in_dollars:
        return None
    if not unpriced:
        text = "each profile has a price, so that budgets in dollars count all calls"
        return Finding("budgets", "ok", text)
    text = (
        f"budgets in dollars ({_named(in_dollars)}) do not limit calls of profiles without a price "
        f"({_named(unpriced)}): set `price` in `[profiles.NAME]`, zeros for a model of your own, "
        "or limit `tokens`, `calls` or `attempts`"
    )
    return Finding("budgets", "warning", text)


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN_MAX
    return ", ".join([*names[:NAMES_SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])])
