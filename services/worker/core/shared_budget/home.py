"""The home of a shared budget: it leases portions to lanes, never more than the limit."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from answerbus.private.budgets import BudgetLeaseRecord
from services.worker.core.budget.account import Charged, plus
from services.worker.core.shared_budget.rules import (
    ZERO,
    Limit,
    at_least_zero,
    charged_of,
    least_of,
    less,
    minus,
    most_of,
    unit_beyond,
)


@dataclass(slots=True)
class LaneShare:
    """See BudgetShareRecord: what one lane was given, and what was last heard from it."""

    granted: Charged = ZERO
    returned: Charged = ZERO
    settled: Charged = ZERO
    asked: int = 0
    answered: int = 0
    wanted: Charged = ZERO
    more: Charged = ZERO
    room: Charged | None = None
    is_tight: bool = False
    begun_at: datetime | None = None
    forgotten: Charged = ZERO
    is_announced: bool = False

    @property
    def leased(self) -> Charged:
        """The lane's amounts, used or not; a call may have cost more than its worst case."""
        return most_of(minus(self.granted, self.returned), self.settled)

    @property
    def outstanding(self) -> Charged:
        """The same with all that it has forgotten."""
        return plus(self.leased, self.forgotten)

    @property
    def charged(self) -> Charged:
        """The part of that which cannot come back."""
        return plus(self.settled, self.forgotten)

    @property
    def added(self) -> Charged:
        """How much more it has with what it wants: a part of that may be counted as settled."""
        with_wanted = plus(minus(self.granted, self.returned), self.wanted)
        return minus(most_of(with_wanted, self.settled), self.leased)

    @property
    def may_come_back(self) -> bool:
        """Whether something of it may not be used in the end."""
        return any(amount > 0 for amount in minus(self.leased, self.settled))

    def of_lease(self, begun_at: datetime | None) -> "LaneShare":
        """The share of another lease: how much of the last one was used is not known any more."""
        return LaneShare(
            begun_at=begun_at, forgotten=self.outstanding, is_announced=self.is_announced
        )


@dataclass(slots=True)
class Home:
    """The shares of one budget in one window, by lane; those that wait are in their order."""

    shares: dict[int, LaneShare] = field(default_factory=dict)
    _waiting: tuple[int, ...] = ()
    _outstanding: Charged = ZERO
    _settled: Charged = ZERO

    @property
    def settled(self) -> Charged:
        """The charges of calls that have ended, as far as the lanes have reported them."""
        return self._settled

    @property
    def is_awaited(self) -> bool:
        """Whether a lane waits for an answer."""
        return bool(self._waiting)

    @property
    def is_announced(self) -> bool:
        """Whether it was published that the budget is nearly spent."""
        return any(share.is_announced for share in self.shares.values())

    def share(self, lane: int) -> LaneShare:
        return self.shares.setdefault(lane, LaneShare())

    def restore(self, lane: int, share: LaneShare) -> None:
        """Take over what the record of a share says."""
        with self._changing(lane):
            self.shares[lane] = share

    def end(self, lane: int) -> None:
        """Forget a lane, of a window that is over."""
        self.restore(lane, LaneShare())
        del self.shares[lane]
        self._stop_waiting(lane)

    def close(self, partitions: int) -> None:
        """Lanes that are no more, after a move to fewer, ask for nothing and give nothing back."""
        for lane in [number for number in self.shares if number >= partitions]:
            share = self.shares[lane]
            self.restore(lane, replace(share, settled=share.leased, answered=share.asked))
            self._stop_waiting(lane)

    def report(self, lane: int, said: BudgetLeaseRecord) -> None:
        """Hear of its lease from a lane, whose records come in their order."""
        if said.begun_at != self.share(lane).begun_at:
            self._stop_waiting(lane)
            self.restore(lane, self.share(lane).of_lease(said.begun_at))
        with self._changing(lane) as share:
            share.returned, share.settled = charged_of(said.returned), charged_of(said.settled)
            share.wanted, share.more = charged_of(said.wanted), charged_of(said.more)
            share.asked = said.asked

    def answers(self, limit: Limit, portion: Charged) -> Iterator[int]:
        """Serve the lanes that wait, one after the other; gives those whose share has changed."""
        for lane in self._waiting:
            added, left = self.shares[lane].added, less(limit, self._settled)
            if unit_beyond(less(limit, self._outstanding), added) is None:
                self._grant(lane, limit, portion)
            elif unit_beyond(left, added):
                self._answer(lane, room=at_least_zero(_amounts(left)))
            else:  # the first waits for what calls in flight do not use, and the others behind it
                yield from self._recall()
                return
            yield lane

    def _grant(self, lane: int, limit: Limit, portion: Charged) -> None:
        with self._changing(lane) as share:
            rest = less(less(limit, self._outstanding), share.added)
            extra = least_of(at_least_zero(_amounts(rest)), most_of(share.more, portion))
            share.granted = plus(share.granted, plus(share.wanted, extra))
        self._answer(lane, room=None)

    def _answer(self, lane: int, room: Charged | None) -> None:
        share = self.shares[lane]
        share.answered, share.room = share.asked, room
        self._stop_waiting(lane)
        share.is_tight = self.is_awaited

    def _recall(self) -> Iterator[int]:
        """Ask all lanes for what they do not use, once; they give back at once from then on."""
        for lane, share in self.shares.items():
            if share.may_come_back and not share.is_tight:
                share.is_tight = True
                yield lane

    @contextmanager
    def _changing(self, lane: int) -> Iterator[LaneShare]:
        """A share is changed: the sums of all go with it, and who asks waits for an answer."""
        before = self.share(lane)
        outstanding, charged = before.outstanding, before.charged
        yield before
        share = self.shares[lane]
        self._outstanding = plus(self._outstanding, minus(share.outstanding, outstanding))
        self._settled = plus(self._settled, minus(share.charged, charged))
        if share.asked > share.answered and lane not in self._waiting:
            self._waiting += (lane,)

    def _stop_waiting(self, lane: int) -> None:
        self._waiting = tuple(other for other in self._waiting if other != lane)


def _amounts(limit: Limit) -> Charged:
    """The units without a limit as nothing: they are not leased."""
    calls, tokens, micro_usd = (most or 0 for most in limit)
    return calls, tokens, micro_usd
