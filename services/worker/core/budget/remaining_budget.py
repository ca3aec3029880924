"""The remaining part of a budget."""

from typing import Literal

from answerbus.budget import AccountState, Budget
from answerbus.request import Prior, Request
from services.worker.core.attempt.plan import Plan
from services.worker.core.budget.account import Charged

BudgetUnit = Literal["attempts", "tokens", "micro_usd"]


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
    request: Request, plan: Plan, prior: tuple[Prior, ...], account: AccountState
) -> BudgetUnit | None:
    """The first budget unit too small for another attempt after `prior`, or None."""
    spent, limit = account.spent, account.limit
    if spent.attempts >= limit.attempts:
        return "attempts"
    if limit.tokens is None and limit.micro_usd is None:
        return None
    prompt = plan.prompt(request, prior)
    cost = plan.worst_cost(prompt)
    after = spent.attempts + 1, spent.tokens + prompt.tokens_max, spent.micro_usd + cost
    return exceeded(limit, after)
