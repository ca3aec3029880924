"""The admission of a request to a call: its plan, its place beside other calls, and the call."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from types import TracebackType

from answerbus.client.turns import in_turns
from answerbus.dead_letter import DeadlinePassed
from answerbus.failure import Problem
from services.worker.core.attempt.check import Checked
from services.worker.core.attempt.fallback import throttled_bound_s
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered, Reply, Unavailable
from services.worker.core.outcome.call import Call
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.asked_calls import (
    children_left,
    wanted_children,
    wanted_questions,
)
from services.worker.core.run.composition import ComputedStep
from services.worker.core.run.made_child import Children, MadeChild
from services.worker.core.schema.resolved import AcceptedStep
from services.worker.lane import crash_precautions
from services.worker.lane.crash_mark import crash_mark, lone_call
from services.worker.lane.lane import Lane
from services.worker.lane.next_profile import Prepared
from services.worker.limits.lease import CallLease
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.planning.planner import Backend
from services.worker.ports.lane import Later, NoCall, Permit, Unanswerable
from services.worker.ports.provider import Provider
from services.worker.tasks import checking
from services.worker.tasks.loop_time import loop_time

AGAIN_AT_ONCE_S = 0.001
CHECKS_WAITING_MAX = 64  # while more answers wait for their check, each keeps its place
LATE_S_MAX = 45.0  # how long after the deadline a call may still be waited for
_log = logging.getLogger(__name__)


async def ask_once(provider: Provider, prompt: Prompt, timeout_s: float) -> Reply:
    """Ask once; a provider that raises has replied too.

    The provider bounds its call. There is no bound around it: an answer that has arrived is paid,
    and may wait for its masking behind many others.
    """
    try:
        return await provider.ask(prompt, timeout_s=timeout_s)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        _log.exception("provider %s cancelled its own call", provider.name)
        return Unavailable(status=None, ran=True)
    except (Exception, SystemExit):  # such as a plug-in's `sys.exit`, which would end the worker
        _log.exception("provider %s raised instead of replying", provider.name)
        return Unavailable(status=None, ran=True)


@dataclass(frozen=True, slots=True)
class LaneCallSlot:
    lane: Lane
    lane_request: LaneRequest
    plan: Plan
    backend: Backend
    lease: CallLease

    async def call(self, prompt: Prompt, permit: Permit) -> Call | NoCall:
        lane, plan, spend = self.lane, self.plan, permit.spend
        if not await self._may_call(permit):
            await self._release(permit)
            return Later(AGAIN_AT_ONCE_S)
        began = loop_time()
        prompt = replace(prompt, attempt=spend.attempt, begins_by=permit.expires_at)
        left_s = max(lane.seconds_left(self.lane_request), 0.0)
        timeout_s = min(plan.profile.timeout_s, left_s + LATE_S_MAX)
        self.lease.call_begins()
        # From here on it is answered for, even if the lane closes.
        lane.calls.began(spend, timeout_s)
        lane.progressed()
        reply = await ask_once(self.backend.provider, prompt, timeout_s)
        duration_s = loop_time() - began
        limiter = self.backend.limiter
        if self._is_current:  # else it says nothing of the provider that is asked by now
            reply = self.lane_request.judge(reply, loop_time(), limiter.breaker.served_since)
            self.lease.report(reply, duration_s)
        if lane.context.costly_work.waiting < CHECKS_WAITING_MAX:
            self.lease.leave_limits()
        if not self.lease.is_alone:  # which others must not call before its outcome is known
            self.lease.leave_isolation()
        lane_request, duration_ms = self.lane_request, int(duration_s * 1000)
        checked = await self._checked(reply)
        children = await self._children(checked)
        return Call(lane_request, plan, prompt, spend, reply, checked, duration_ms, children)

    async def _checked(self, reply: Reply) -> Checked | None:
        if not isinstance(reply, Answered):
            return None
        workflow, costly_work = self.lane_request.request.workflow_id, self.lane.context.costly_work
        return await checking.checked(reply.content, self.plan, costly_work, workflow)

    async def _children(self, step: Checked | None) -> Children:
        """Made before the step is settled at once, with the schemas that a model wrote."""
        request, run = self.lane_request.request, self.lane_request.run
        planner = self.lane.context.planner
        found: dict[str, MadeChild | tuple[Problem, ...]] = {}
        if not isinstance(step, AcceptedStep) or run is None:
            return found
        most = children_left(run)
        async for question in in_turns(wanted_questions(request, run, step)):
            await planner.look_ahead(question)
        async for key, child in in_turns(wanted_children(request, run, step)):
            if isinstance(child, MadeChild):
                await planner.look_ahead(child.request)
                found[key] = planner.problems_of(child.request) or child
            else:
                found[key] = child
            if sum(isinstance(each, MadeChild) for each in found.values()) >= most:
                break
        return found

    async def _may_call(self, permit: Permit) -> bool:
        """Wait for a slot with the permit in hand; False when the call should not be made now."""
        lane, lane_request = self.lane, self.lane_request
        try:
            if not self.lease.begins_at_once(permit.took_s):
                limit_s = min(permit.expires_at - loop_time(), lane.seconds_left(lane_request))
                async with lane.waits.limit(lane_request, limit_s):
                    await self.lease.begin_call(permit.took_s)
        except TimeoutError:
            return False
        is_in_time = loop_time() < permit.expires_at and lane.seconds_left(lane_request) > 0
        may_call = lane.spendable.is_set() and lane_request.cancelled is None
        return is_in_time and may_call and self.lease.may_call and self._is_current

    @property
    def _is_current(self) -> bool:
        """Whether the profile is as it was planned for."""
        return self.lane.context.planner.backend_of(self.plan) is not None

    async def _release(self, permit: Permit) -> None:
        """Give it back; where that raises LaneLost, the opening lane does it."""
        lane, open_lane = self.lane, self.lane.opened
        now = lane.context.clock.now()
        await open_lane.put(open_lane.lane_state.release(self.lane_request, permit.spend, now))
        lane.calls.gone(permit.spend)
        lane.context.observer.released(self.lane_request, permit.spend)
        pump_budget_back(lane)


class LaneAdmission:
    """See ports.lane.RequestTask.admit: a context that gives back all that was taken in it."""

    def __init__(
        self, lane: Lane, lane_request: LaneRequest, prepare: Callable[[], Awaitable[Prepared]]
    ) -> None:
        self._lane, self._lane_request, self._prepare = lane, lane_request, prepare
        self._lease: CallLease | None = None
        self._mark: AbstractAsyncContextManager[None] | None = None

    async def __aenter__(self) -> LaneCallSlot | NoCall:
        try:
            return await self._admitted()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        try:
            if self._mark:
                await self._mark.__aexit__(kind, error, trace)
        finally:
            self._leave()

    async def _admitted(self) -> LaneCallSlot | NoCall:
        lane, lane_request = self._lane, self._lane_request
        if cause := crash_precautions.cause_without_preparation(lane, lane_request):
            return Unanswerable(cause)
        plan = await self._prepare()
        if isinstance(plan, ComputedStep):
            return plan
        if not isinstance(plan, Plan):
            return Unanswerable(plan)
        backend = lane.context.planner.backend_of(plan)
        if backend is None:
            return Later(AGAIN_AT_ONCE_S)  # and plan again
        lease = self._lease = self._new_lease(plan, backend.limiter)
        if not await self._has_entered(plan, backend.limiter, lease):
            if lane_request.cancelled:
                return Unanswerable(lane_request.cancelled)
            # If there is time left, another profile may be asked, or the broker's time has changed.
            has_time = lane.seconds_left(lane_request) > 0
            return Later(AGAIN_AT_ONCE_S) if has_time else Unanswerable(DeadlinePassed())
        if lease.is_alone:
            mark = crash_mark(lane, lone_call(lane_request))
            await mark.__aenter__()
            self._mark = mark
        return LaneCallSlot(lane, lane_request, plan, backend, lease)

    def _new_lease(self, plan: Plan, limiter: ProfileLimiter) -> CallLease:
        lane, lane_request, context = self._lane, self._lane_request, self._lane.context
        request, prior = lane_request.request, lane_request.progress.prior
        return CallLease(
            limiter,
            context.slots,
            context.isolation,
            crash_precautions.isolation_level(lane, lane_request),
            key=lane_request.fair_key,
            tokens=plan.prompt(request, prior).tokens_max if limiter.counts_tokens else 0,
            lane=lane.partition,
        )

    async def _has_entered(self, plan: Plan, limiter: ProfileLimiter, lease: CallLease) -> bool:
        """Wait for a place at the profile and in the worker; False if the request ends before."""
        lane, lane_request = self._lane, self._lane_request
        if lease.enters_at_once():
            return lane.seconds_left(lane_request) > 0
        limit_s = min(lane.seconds_left(lane_request), _throttled_in_s(plan, limiter))
        wait = lane.waits.limit(lane_request, limit_s)
        limiter.waiting[wait.end] = plan.may_change_profile
        try:
            async with wait:
                await lease.enter()
        except TimeoutError:
            return False
        finally:
            del limiter.waiting[wait.end]
        return lane.seconds_left(lane_request) > 0

    def _leave(self) -> None:
        if self._lease:
            self._lease.leave()


def _throttled_in_s(plan: Plan, limiter: ProfileLimiter) -> float:
    """Until another profile is asked, if its own goes on to be throttled."""
    bound_s = throttled_bound_s(plan.profile.fallbacks)
    return math.inf if bound_s is None else limiter.throttled_in_s(bound_s)


def pump_budget_back(lane: Lane) -> None:
    """Let those go on whose account is to be asked again."""
    if lane.open and lane.open.lane_state.queue.has_budget_back:
        lane.pump()
