"""The limit of an account that several requests share: settled by one, or the sum of all; pure.

Where no request names a budget, each new one adds its own attempts. The first that names one
settles the limit for the whole workflow. Which requests have added is known by their places: an
opening reads the records again that no commit has passed, and they must not add twice.
"""

from answerbus.budget import Budget
from answerbus.limits import ATTEMPTS_MAX
from answerbus.outcome import Origin
from answerbus.request import Request
from services.worker.core.budget.account import Account, Charged, Place


def take_in(account: Account, request: Request, place: Origin, *, opens: bool) -> str | None:
    """Let a request that was admitted at `place` settle the limit, or add to it.

    `opens`: the account was made for it. Gives a note where the budget that it names is not used.
    """
    at, is_child = place_of(place), request.parent is not None  # which has a part of its run's
    if request.names_budget and not is_child:
        return _named(account, request, opens=opens)
    last = account.shared_by
    if opens:
        account.shared_by = at
    elif isinstance(last, tuple) and is_later(at, last) and not is_child:
        account.shared_by = at[0], max(at[1], last[1])
        if not request.prior:  # a follow-up goes on with what is left
            account.limit = sum_of(account.limit, request.budget)
    return None


def _named(account: Account, request: Request, *, opens: bool) -> str | None:
    settled_by = account.shared_by
    if opens or isinstance(settled_by, tuple):
        account.limit = request.budget if opens else _at_least(request.budget, account.reserved)
        account.shared_by = request.request_id
        return None
    if settled_by == request.request_id or account.limit == request.budget:
        return None
    by = f"request {settled_by}" if settled_by else "an earlier request"
    return (
        f"its budget is not used: {by} has settled that of the workflow, "
        f"{account.limit.attempts:,} attempts in all; a replay has a budget of its own"
    )


def place_of(origin: Origin) -> Place:
    """Where a record stands, and since when, in milliseconds."""
    return origin.offset, int(origin.timestamp.timestamp() * 1000)


def is_later(place: Place, other: Place) -> bool:
    """Whether a record came after another; in a topic that was made anew, offsets begin again."""
    return place[0] > other[0] or place[1] > other[1]


def sum_of(limit: Budget, own: Budget) -> Budget:
    """Both together; tokens and money are limited where both are."""
    return Budget(
        attempts=min(limit.attempts + own.attempts, ATTEMPTS_MAX),
        tokens=_sum(limit.tokens, own.tokens),
        micro_usd=_sum(limit.micro_usd, own.micro_usd),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return one if one is None or other is None else one + other


def _at_least(budget: Budget, used: Charged) -> Budget:
    """A limit that is settled late is not below what was charged before."""
    attempts, tokens, micro_usd = used
    return Budget(
        attempts=max(budget.attempts, attempts),
        tokens=None if budget.tokens is None else max(budget.tokens, tokens),
        micro_usd=None if budget.micro_usd is None else max(budget.micro_usd, micro_usd),
    )
