"""The remaining part of a budget."""

from dataclasses import dataclass
from typing import Literal

from answerbus.budget import Budget
from answerbus.request import Prior, Request
from services.worker.core.attempt.plan import Plan
from services.worker.core.budget.account import Charged

BudgetUnit = Literal["attempts", "tokens", "micro_usd"]


@dataclass(frozen=True, slots=True)
class RemainingBudget:
    """The limits of a request's next attempt: its account once the last call is settled.

    `attempts_left` are those that the request may make then, if that is known: it may be less than
    its account has.
    """

    limit: Budget
    charged: Charged
    attempts_left: int | None = None


def exceeded(limit: Budget, charged: Charged) -> BudgetUnit | None:
    """Which limit this breaks, if any; None means no limit, and 0 is nothing at all."""
    attempts, tokens, micro_usd = charged
    if attempts > limit.attempts:
        return "attempts"
    if limit.tokens is not None and tokens > limit.tokens:
        return "tokens"
    if limit.micro_usd is not None and micro_usd > limit.micro_usd:
        return "micro_usd"
    return None


def first_exhausted(
    request: Request, plan: Plan, prior: tuple[Prior, ...], budget: RemainingBudget
) -> BudgetUnit | None:
    """The first budget unit too small for another attempt after `prior`, or None."""
    limit, (attempts, tokens, micro_usd) = budget.limit, budget.charged
    is_last = budget.attempts_left is not None and budget.attempts_left < 1
    if is_last or attempts >= limit.attempts:
        return "attempts"
    if limit.tokens is None and limit.micro_usd is None:
        return None
    prompt = plan.prompt(request, prior)
    cost = plan.worst_cost(prompt)
    return exceeded(limit, (attempts + 1, tokens + prompt.tokens_max, micro_usd + cost))
