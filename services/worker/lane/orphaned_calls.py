"""A predecessor's open calls: settles them, and finds the suspects of its crash."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

from answerbus.attempt import Attempt
from answerbus.request_key import RequestKey
from services.worker.core.budget.account import Spend
from services.worker.core.budget.audit import give_back, write_off
from services.worker.core.budget.ledger import Ledger
from services.worker.lane.opening import RecoveredState
from services.worker.lane.state.suspects import Suspects, suspects_of


def settle_orphaned_calls(
    ledger: Ledger,
    calls: AbstractSet[Spend],
    unused: AbstractSet[Spend],
    now: datetime,
    worker: str,
) -> list[Attempt]:
    """Settle the spends that were found open, but for those of `calls`, which still go on.

    Those of `unused`, whose call is known never to have begun, are given back; those of a
    predecessor, whose calls cannot be settled any more, are charged.
    """
    found = [spend for account in ledger.accounts.live() for spend in account.in_flight.values()]
    found.sort(key=lambda spend: spend.at)  # the first called are the first suspects
    return [
        (give_back if spend in unused else write_off)(ledger, spend, now, worker)
        for spend in found
        if spend not in calls
    ]


def suspects_after(
    recovered: RecoveredState, orphaned: Sequence[Attempt], *, same_process: bool
) -> Suspects:
    """Who may be why the predecessor ended, if it did: it has calls left over, or made a mark.

    A predecessor that still wrote when it was shut out has not ended, and is no reason for blame.
    """
    suspects = suspects_of(
        recovered.ledger.lane, lambda closes: recovered.ledger.known(closes) is not None
    )
    lane = recovered.ledger.lane
    if lane is not None and not same_process and not recovered.was_alive:
        cut_off = dict.fromkeys(RequestKey.of(attempt) for attempt in orphaned if attempt.counted)
        if cut_off or lane.watched:
            suspects.blame(lane.watched, cut_off.keys())
    suspects.bound()
    return suspects
