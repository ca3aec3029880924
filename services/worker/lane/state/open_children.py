"""The open children of a lane's runs: their parents, their spending, and reserved budgets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from answerbus.budget import Spent
from answerbus.request import Request
from answerbus.request_key import RequestKey
from services.worker.core.budget.account import Account, Charged, plus
from services.worker.core.budget.allowance import UNBOUND, Allowance, Cap
from services.worker.core.budget.remaining_budget import exceeded
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.children import may_ask
from services.worker.core.run.composition import FreeBudget
from services.worker.core.run.run import Run

NO_MINIMUM = Spent()


@dataclass(slots=True)
class OpenChildren:
    """By the run that asks; `requests` are all open requests of the lane.

    A request becomes a child while its run is open, and in it the call that asks. A run that has
    children waits, and does not run before they are gone, also where their calls have ended. A run
    reserves a minimum from the first spend on whose answer may call tools, until one whose answer
    cannot; if that one is not counted, it reserves it again.
    """

    requests: Mapping[RequestKey, LaneRequest]
    _of: dict[RequestKey, dict[RequestKey, LaneRequest]] = field(default_factory=dict)
    _reserving: dict[str, dict[RequestKey, LaneRequest]] = field(default_factory=dict)  # by account

    def put(self, lane_request: LaneRequest) -> None:
        """Take a request in, if it is a child."""
        above = self.named_parent(lane_request)
        if above and may_ask(above.request, above.run, lane_request.request):
            self._put(lane_request, above)

    def _put(self, lane_request: LaneRequest, above: LaneRequest) -> None:
        self._of.setdefault(above.key, {})[lane_request.key] = lane_request

    def put_all(self, accounts: Mapping[str, Account]) -> None:
        """Take in the children among all requests, in any order, and the reserved minimums of runs.

        They are what an opening found: each was a child, though its call may have ended since. A
        run that reserved nothing had made its last attempt; if a crash has made that count, the run
        needs another one, and reserves what is left beside the reserved minimums of others.
        """
        for lane_request in self.requests.values():
            above = self.named_parent(lane_request)
            if above and above.run and above.request.account_id == lane_request.account_id:
                self._put(lane_request, above)
        spenders = []
        for lane_request in self.requests.values():
            account = accounts.get(lane_request.account_id)
            if lane_request.run is None or not (lane_request.run.steps or account):
                continue
            if account is None:  # no model has been asked yet
                self._set_minimum(lane_request, reserved=True)
            elif _had_minimum(lane_request, lane_request.run, account):
                self.set_minimum(lane_request, account, reserved=True)
            elif lane_request.run.steps:
                spenders.append((lane_request, account))
        for lane_request, account in spenders:
            self.set_minimum(lane_request, account, reserved=self._is_left(lane_request, account))

    def _is_left(self, lane_request: LaneRequest, account: Account) -> bool:
        """Whether its minimum is left beside those of others: a crash may have cost it."""
        kept = [_minimum(run) for run in self._reserving.get(account.id, {}).values()]
        needed = _sum([account.reserved, *kept, _minimum(lane_request)])
        return exceeded(account.limit, needed) is None

    def set_minimum(self, lane_request: LaneRequest, account: Account, *, reserved: bool) -> None:
        """Whether others have to leave a run what one step more may cost."""
        account.set_minimum(lane_request.request.request_id, reserved=reserved)
        self._set_minimum(lane_request, reserved=reserved)

    def _set_minimum(self, lane_request: LaneRequest, *, reserved: bool) -> None:
        account_id = lane_request.account_id
        reserving = self._reserving.setdefault(account_id, {})
        if reserved:
            reserving[lane_request.key] = lane_request
        else:
            reserving.pop(lane_request.key, None)
        if not reserving:
            del self._reserving[account_id]

    def reserves(self, lane_request: LaneRequest) -> bool:
        """Whether others have to leave it something."""
        return lane_request.key in self._reserving.get(lane_request.account_id, ())

    def uncounted(self, lane_request: LaneRequest, account: Account) -> None:
        """Its last spend came to nothing: a run that has taken steps has to ask that one again."""
        if lane_request.run and lane_request.run.steps:
            self.set_minimum(lane_request, account, reserved=True)

    def end(self, lane_request: LaneRequest) -> LaneRequest | None:
        """A request is gone; gives the run that was waiting for it and has no other child."""
        if lane_request.account_id in self._reserving:
            self._set_minimum(lane_request, reserved=False)
        above = self.parent_of(lane_request)
        if above is None:
            return None
        siblings = self._of[above.key]
        del siblings[lane_request.key]
        if siblings:
            return None
        del self._of[above.key]
        return above

    def parent_of(self, lane_request: LaneRequest) -> LaneRequest | None:
        """The run that asked, if it is a child."""
        parent = parent_key(lane_request.request)
        if parent is None or lane_request.key not in self._of.get(parent, ()):
            return None
        return self.requests.get(parent)

    def named_parent(self, lane_request: LaneRequest) -> LaneRequest | None:
        """The open request that it names as its parent, whether or not that has asked it."""
        parent = parent_key(lane_request.request)
        return self.requests.get(parent) if parent else None

    def of(self, lane_request: LaneRequest) -> list[LaneRequest]:
        """Those that a run has asked, and which are open."""
        return list(self._of.get(lane_request.key, {}).values()) if self._of else []

    def below(self, lane_request: LaneRequest) -> Iterator[LaneRequest]:
        """These, and those that they have asked."""
        for child in self.of(lane_request):
            yield child
            yield from self.below(child)

    def allowance(self, lane_request: LaneRequest, account: Account) -> Allowance:
        """The bounds of a request's spends beside the limit of its account."""
        reserving = self._reserving.get(account.id, {})
        if not reserving:
            return UNBOUND
        minimums = [_minimum(one) for one in reserving.values() if one is not lane_request]
        caps, above = list[Cap](), self.parent_of(lane_request)
        one: LaneRequest | None = lane_request
        while above is not None and one is not None:
            parent = one.request.parent
            if parent and parent.cap is not None:
                caps.append(self._cap(one, parent.cap, account, lane_request))
            one, above = above, self.parent_of(above)
        is_needed = self.parent_of(lane_request) is not None or lane_request.key in reserving
        return Allowance(_sum(minimums), tuple(caps), may_wait=not is_needed)

    def attempts_left(self, lane_request: LaneRequest, account: Account) -> int:
        """How many a request may still make, if those in flight come to nothing."""
        left = account.limit.attempts - account.charged[0]
        return self.allowance(lane_request, account).attempts_left(left)

    def attempts_now(self, lane_request: LaneRequest, account: Account) -> int:
        """How many it may make now, beside calls in flight and what it must leave to runs."""
        left = account.limit.attempts - account.charged[0]
        return self.allowance(lane_request, account).attempts_now(left) - len(account.in_flight)

    def free_budget(self, lane_request: LaneRequest, account: Account) -> FreeBudget:
        """The budget that a request may use now, if no call in flight gives anything back."""
        limit, kept = account.limit, self.allowance(lane_request, account).reserved_minimum
        _, tokens, micro_usd = plus(account.reserved, kept)
        return FreeBudget(
            self.attempts_now(lane_request, account),
            None if limit.tokens is None else limit.tokens - tokens,
            None if limit.micro_usd is None else limit.micro_usd - micro_usd,
        )

    def used(self, lane_request: LaneRequest, account: Account) -> int:
        """The counted attempts of a request and all below it, as far as they are settled."""
        ended = lane_request.run.spent_by_children if lane_request.run else 0
        own = account.counted_of(lane_request.request.request_id)
        return own + ended + sum(self.used(child, account) for child in self.of(lane_request))

    def _cap(
        self, lane_request: LaneRequest, limit: int, account: Account, spends: LaneRequest
    ) -> Cap:
        within = [lane_request, *self.below(lane_request)]
        reserving = self._reserving.get(account.id, {})
        return Cap(
            limit,
            self.used(lane_request, account),
            sum(account.in_flight_of(one.request.request_id) for one in within),
            sum(one is not spends and one.key in reserving for one in within),
        )


def parent_key(request: Request) -> RequestKey | None:
    """The run that a request names as its parent: one of its own workflow."""
    parent = request.parent
    return RequestKey(request.workflow_id, parent.request_id) if parent else None


def _had_minimum(lane_request: LaneRequest, run: Run, account: Account) -> bool:
    """Whether a run reserved a minimum before an opening, as its account says once it spends."""
    request_id = lane_request.request.request_id
    return request_id in account.reserving if request_id in account.open else bool(run.steps)


def _minimum(lane_request: LaneRequest) -> Charged:
    minimum = lane_request.run.reserved_minimum if lane_request.run else NO_MINIMUM
    return minimum.attempts, minimum.tokens, minimum.micro_usd


def _sum(charges: list[Charged]) -> Charged:
    attempts, tokens, micro_usd = zip(*charges, strict=True) if charges else ((), (), ())
    return sum(attempts), sum(tokens), sum(micro_usd)
