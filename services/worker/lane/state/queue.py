"""The queue: order within a workflow, fairness between tenants, retries and deadlines."""

import sys
from collections import Counter, deque
from collections.abc import Callable, Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from answerbus.cause import Cancelled
from answerbus.request import Request
from answerbus.request_key import RequestKey
from services.worker.core.request.lane_request import LaneRequest, RequestProgress
from services.worker.core.request.life import RequestEvent, RequestState
from services.worker.core.request.tenant import fair_key
from services.worker.lane.state.counted_requests import CountedRequests, CountedShares
from services.worker.lane.state.fair_scheduler import FairScheduler
from services.worker.lane.state.open_children import OpenChildren
from services.worker.lane.state.timed_requests import TimedRequests


@dataclass(slots=True)
class Queue:
    """The requests in a lane's hands, from admission to the outcome: all events of their life.

    A workflow's ordered requests form a chain; only its head may run, also while that waits for a
    retry. Ready requests take turns, so that neither a tenant or a workflow with thousands of
    requests nor a profile that is slow or away starves the others. A request waits while calls in
    flight hold its account's remaining budget, and so do the others of account and profile, except
    runs with a reserved minimum.
    Of the number that is `counted`, a workflow and a tenant have a share each. Children are outside
    of the chain, in the turn of their run, which does not run while it has some.
    """

    shares: CountedShares = CountedShares()  # noqa: RUF009 - immutable
    is_held: Callable[[RequestKey], bool] = lambda _: False  # then it runs only when it is tried
    requests: dict[RequestKey, LaneRequest] = field(default_factory=dict)
    digests: dict[RequestKey, str] = field(default_factory=dict)
    bytes: int = 0
    counted: CountedRequests = field(init=False)
    children: OpenChildren = field(init=False)
    # By account and profile.
    _awaiting_budget: dict[str, dict[str, deque[LaneRequest]]] = field(default_factory=dict)
    # That are held, and could run else.
    _apart: dict[RequestKey, LaneRequest] = field(default_factory=dict)
    # Whose account is to be asked again.
    _with_budget_back: set[LaneRequest] = field(default_factory=set)
    _chains: dict[str, deque[LaneRequest]] = field(default_factory=dict)
    _scheduler: FairScheduler = field(init=False)
    _delayed: TimedRequests = field(default_factory=TimedRequests)
    _ending: deque[LaneRequest] = field(default_factory=deque)  # that have not run since
    _deadlines: TimedRequests = field(default_factory=TimedRequests)

    def __post_init__(self) -> None:
        self.children = OpenChildren(self.requests)
        self.counted = CountedRequests(self.shares)
        self._scheduler = FairScheduler()

    def __len__(self) -> int:
        return len(self.requests)

    def put(self, lane_request: LaneRequest) -> None:
        """Take a request in, behind what its workflow already has."""
        if self._take_in(lane_request):
            self._admit(lane_request)

    def adopt(self, lane_request: LaneRequest) -> None:
        """Take in a request whose call is in flight; it runs at the head of its workflow."""
        self._take_in(lane_request)
        lane_request.handle_event(RequestEvent.REOPENED)
        self._scheduler.run(lane_request)

    def _take_in(self, lane_request: LaneRequest) -> bool:
        """Gives whether no request of its workflow is in front of it."""
        request = lane_request.request
        self.requests[lane_request.key] = lane_request
        self.digests[lane_request.key] = lane_request.body_digest
        self.bytes += lane_request.size_bytes
        lane_request.take_turns_as(fair_key(request, self.shares.tenant_label))
        self.counted.add(lane_request.fair_key)
        self._deadlines.add(lane_request, lane_request.deadline)
        if not _is_ordered(request):
            self.children.put(lane_request)
            return True
        chain = self._chains.get(request.workflow_id)
        if chain is None:
            self._chains[request.workflow_id] = deque((lane_request,))
            return True
        chain.append(lane_request)
        return False

    def take(self, most: int = sys.maxsize) -> LaneRequest | None:
        """The next request whose turn has come; it runs until it is set aside, or `finish`.

        At most `most` requests of one profile run.
        """
        while lane_request := self._scheduler.take(most):
            lane_request.handle_event(RequestEvent.TURN)
            if lane_request in self._with_budget_back:
                self._with_budget_back.discard(lane_request)
            elif self._is_behind_others(lane_request):
                self._await_budget(lane_request)  # behind those that found out
                continue
            return lane_request
        return None

    def await_budget(self, lane_request: LaneRequest, now: datetime) -> None:
        """Set a running request aside until `budget_back`, or its deadline."""
        self._await_budget(lane_request)
        self._look_at_deadline(lane_request, now)

    def await_shared_budgets(self, lane_request: LaneRequest, now: datetime) -> None:
        """Set a running request aside until `shared_budgets_back`, or its deadline."""
        self._stop(lane_request)
        self._look_at_deadline(lane_request, now)

    def shared_budgets_back(self, key: RequestKey) -> None:
        """The request's wait has ended: it tries again."""
        lane_request = self.requests.get(key)
        if lane_request and lane_request.state is RequestState.AWAITING_BUDGET:
            self._try_again(lane_request)

    @property
    def has_budget_back(self) -> bool:
        """Whether its account is to be asked again."""
        return bool(self._with_budget_back)

    def budget_back(self, account_id: str) -> None:
        """Something of the account may be free: the first that waits tries again, then the next.

        It is the first of each profile: one may be away for hours, and its requests with it.
        """
        by_profile = self._awaiting_budget.get(account_id, {})
        for profile, waiting in list(by_profile.items()):
            while waiting:
                lane_request = waiting.popleft()
                if lane_request.state is RequestState.AWAITING_BUDGET:
                    self._try_again(lane_request)
                    break
            if not waiting:
                del by_profile[profile]
        if not by_profile:
            self._awaiting_budget.pop(account_id, None)

    def apart(self) -> list[RequestKey]:
        """The requests that are held, and could run."""
        return [
            name
            for name, lane_request in self._apart.items()
            if lane_request.state is RequestState.READY
        ]

    def take_apart(self, key: RequestKey) -> LaneRequest:
        """One of `apart`, which runs until it is set aside, or `finish`."""
        lane_request = self._apart.pop(key)
        self._with_budget_back.discard(lane_request)
        lane_request.handle_event(RequestEvent.TURN)
        return self._scheduler.run(lane_request)

    def wait(self, lane_request: LaneRequest, progress: RequestProgress) -> None:
        """A running request asks again soon, and keeps its turn."""
        lane_request.handle_event(RequestEvent.WAITED, progress=progress)

    def delay(self, lane_request: LaneRequest, until: datetime, progress: RequestProgress) -> None:
        """Set a running request aside until its next attempt; its workflow waits with it."""
        self._set_aside(lane_request, RequestEvent.RETRY, until, progress)

    def await_tools(self, lane_request: LaneRequest, progress: RequestProgress) -> None:
        """Set a running request aside until `signal`; its workflow waits with it."""
        self._set_aside(lane_request, RequestEvent.STEP, lane_request.deadline, progress)

    def _set_aside(
        self,
        lane_request: LaneRequest,
        event: RequestEvent,
        until: datetime,
        progress: RequestProgress,
    ) -> None:
        self._scheduler.stop(lane_request)
        lane_request.handle_event(event, until=until, progress=progress)
        if lane_request.state is RequestState.ENDING:  # cancelled while its call was settled
            self._ending.append(lane_request)
        else:
            self._delayed.add(lane_request, until)
        if until >= lane_request.deadline:  # which may have passed while it ran
            self._deadlines.add(lane_request, lane_request.deadline)

    def signal(self, lane_request: LaneRequest) -> None:
        """The last of what a run waits for has ended; of one that still runs, it says nothing."""
        if lane_request.state is RequestState.AWAITING_TOOLS:
            self._delayed.release(lane_request)
            self._line_up(lane_request, RequestEvent.SIGNAL)

    def cancel(self, lane_request: LaneRequest, cause: Cancelled) -> None:
        """Let a request end, wherever it is, and all that it asks; the first cause counts."""
        if lane_request.state not in {RequestState.ENDING, RequestState.DONE}:
            lane_request.handle_event(RequestEvent.CANCELLED, cause=cause)
            self._ending.append(lane_request)
            for child in self.children.of(lane_request):
                self.cancel(child, cause)

    @property
    def has_ending(self) -> bool:
        return bool(self._ending)

    def take_ending(self, most: int) -> list[LaneRequest]:
        """So many of the requests that were cancelled; see `run_to_end`."""
        return [self._ending.popleft() for _ in range(min(most, len(self._ending)))]

    def run_to_end(self, lane_request: LaneRequest) -> bool:
        """Let a cancelled request run; False if it runs, is done, or has children."""
        return self._run_at_once(lane_request, RequestEvent.TURN)

    def _run_at_once(self, lane_request: LaneRequest, event: RequestEvent) -> bool:
        is_done = lane_request.state is RequestState.DONE
        if is_done or lane_request in self._scheduler or self.children.of(lane_request):
            return False
        self._delayed.release(lane_request)
        self._with_budget_back.discard(lane_request)
        self._apart.pop(lane_request.key, None)
        lane_request.handle_event(event)
        self._scheduler.run(lane_request)
        return True

    def finish(self, lane_request: LaneRequest) -> LaneRequest | None:
        """Let a running request go; the next of its workflow becomes ready.

        Gives the run that waited for it, if it was its last child.
        """
        had_minimum = self.children.reserves(lane_request)
        above = self.children.end(lane_request)
        if above:
            # It may have passed while children were open.
            self._deadlines.add(above, above.deadline)
            if above.state is RequestState.ENDING:
                self._ending.append(above)
        self._let_go(lane_request)
        if had_minimum:
            self.budget_back(lane_request.account_id)
        return above

    def _let_go(self, lane_request: LaneRequest) -> None:
        self._scheduler.stop(lane_request)
        lane_request.handle_event(RequestEvent.OUTCOME)
        request = lane_request.request
        del self.requests[lane_request.key]
        del self.digests[lane_request.key]
        self.bytes -= lane_request.size_bytes
        self._with_budget_back.discard(lane_request)
        self._apart.pop(lane_request.key, None)
        self.counted.remove(lane_request.fair_key)
        self._deadlines.release(lane_request)
        chain = self._chains.get(request.workflow_id)
        if not _is_ordered(request) or chain is None:
            return
        was_head = chain[0] is lane_request
        chain.remove(lane_request)
        if not chain:
            del self._chains[request.workflow_id]
        elif was_head and chain[0].state is RequestState.WAITING:
            self._admit(chain[0])  # else its deadline made it run before

    def wake(self, now: datetime) -> list[LaneRequest]:
        """Make due retries ready; return the requests whose deadline has passed, as running."""
        for lane_request in self._delayed.due(now):
            if lane_request.state is RequestState.DELAYED:  # else what ends it lets it run
                self._line_up(lane_request, RequestEvent.DUE)
        return [
            lane_request
            for lane_request in self._deadlines.due(now)
            if self._run_at_once(lane_request, RequestEvent.DEADLINE)
        ]

    def next_moment(self) -> datetime | None:
        """When `wake` may have something to do."""
        moments = (self._delayed.next_moment(), self._deadlines.next_moment())
        return min(filter(None, moments), default=None)

    @property
    def running(self) -> int:
        """Requests that were taken, adopted or woken by their deadline."""
        return self._scheduler.running

    def largest(self) -> tuple[str, int, int] | None:
        """The workflow with the most requests, how many, and how many of them run."""
        if not self.requests:
            return None
        of_workflow = Counter(key.workflow_id for key in self.requests)
        ((workflow_id, requests),) = of_workflow.most_common(1)
        return workflow_id, requests, self._scheduler.running_in(workflow_id)

    @property
    def profiles(self) -> AbstractSet[str]:
        """Those with a request that runs or could run."""
        return self._scheduler.profiles

    def pressing(self, unavailable: Container[str] = ()) -> int:
        """Requests that run, or are the next of their workflow to run.

        All others are retries that wait for their moment, are behind another request, or want a
        profile that is `unavailable`.
        """
        return self._scheduler.pressing(unavailable)

    @property
    def held(self) -> int:
        """Requests that wait for their moment: retries, and runs whose tools are at work."""
        return len(self._delayed)

    def _admit(self, lane_request: LaneRequest) -> None:
        life = lane_request.life
        if life.until is None:
            self._line_up(lane_request, life.then)
        else:
            lane_request.handle_event(life.then, until=life.until)
            self._delayed.add(lane_request, life.until)

    def _try_again(self, lane_request: LaneRequest) -> None:
        self._with_budget_back.add(lane_request)
        self._line_up(lane_request, RequestEvent.BUDGET_BACK, first=True)

    def _stop(self, lane_request: LaneRequest) -> None:
        self._scheduler.stop(lane_request)
        lane_request.handle_event(RequestEvent.BUDGET_GONE)

    def _look_at_deadline(self, lane_request: LaneRequest, now: datetime) -> None:
        if lane_request.deadline <= now:  # it passed while it ran
            self._deadlines.add(lane_request, lane_request.deadline)

    def _is_behind_others(self, lane_request: LaneRequest) -> bool:
        by_profile = self._awaiting_budget.get(lane_request.account_id, {})
        is_behind = lane_request.request.profile in by_profile
        return is_behind and not self.children.reserves(lane_request)

    def _await_budget(self, lane_request: LaneRequest) -> None:
        self._stop(lane_request)
        by_profile = self._awaiting_budget.setdefault(lane_request.account_id, {})
        waiting = by_profile.setdefault(lane_request.request.profile, deque())
        is_needed = self.children.reserves(lane_request)
        (waiting.appendleft if is_needed else waiting.append)(lane_request)

    def _line_up(
        self, lane_request: LaneRequest, event: RequestEvent, *, first: bool = False
    ) -> None:
        lane_request.handle_event(event)
        if self.is_held(lane_request.key):
            self._apart[lane_request.key] = lane_request
        else:
            self._scheduler.line_up(lane_request, first=first)


def _is_ordered(request: Request) -> bool:
    return request.policy.ordering == "workflow" and request.parent is None
