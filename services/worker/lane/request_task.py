"""A lane's implementation of the main path's port for one request: admission and commits."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace

from answerbus.dead_letter import BudgetExhausted, Cause, DeadLetter
from answerbus.failure import Invalid
from answerbus.schema_name import schema_name
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.budget.ledger import Reserved
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decide import DecisionInputs
from services.worker.core.outcome.decision import Decision, NextStep, Verdict
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.composition import ComputedStep
from services.worker.lane import crash_precautions
from services.worker.lane.admission import AGAIN_AT_ONCE_S, LaneAdmission, pump_budget_back
from services.worker.lane.lane import Lane
from services.worker.lane.next_profile import Prepared, is_asked_otherwise, plan_after
from services.worker.ports.lane import LaneLost, Later, NoCall, Permit, Unanswerable

PERMIT_S = 5.0  # how long after the start of its commit a spend may be used
NO_ROOM_S = 1.0  # until one that has to wait for suspects asks again, from behind all others

_log = logging.getLogger(__name__)


class LaneRequestTask:
    def __init__(self, lane: Lane, lane_request: LaneRequest) -> None:
        self.lane_request = lane_request
        self._lane = lane
        self._prepared: Prepared | None = None

    def admit(self) -> LaneAdmission:
        return LaneAdmission(self._lane, self.lane_request, self._prepare)

    async def spend(self, plan: Plan, prompt: Prompt) -> Permit | NoCall:
        """Charge one attempt and commit that; raises LaneLost if that is not known to be done."""
        lane, lane_request = self._lane, self.lane_request
        while not lane.spendable.is_set():  # it may be taken back before this task has its turn
            if lane.leaving:
                raise LaneLost
            await lane.spendable.wait()
        if lane_request.cancelled:
            return Unanswerable(lane_request.cancelled)
        open_lane, asked_at = lane.opened, asyncio.get_running_loop().time()
        suspects, name = open_lane.lane_state.suspects, lane_request.key
        if suspects.found and not suspects.has_room(name, [*lane.calls.requests()]):
            return Later(NO_ROOM_S)  # one more crash could not be blamed on more than are there
        now = lane.context.clock.now()
        if plan.may_go_on and open_lane.lane_state.is_last_attempt(lane_request, now):
            self._prepared = None  # others have spent meanwhile: its next answer must be the last
            return Later(AGAIN_AT_ONCE_S)
        if plan.hops and open_lane.lane_state.exhausted_by(lane_request, plan, now):
            self._prepared = None  # others have spent meanwhile: it is left out
            return Later(AGAIN_AT_ONCE_S)
        charged = open_lane.lane_state.spend(lane_request, plan, prompt, now)
        pump_budget_back(lane)
        if isinstance(charged, BudgetExhausted):
            return Unanswerable(charged)
        if isinstance(charged, Reserved):
            if open_lane.lane_state.budgets.has_unsent:  # its shared budget has been asked for more
                open_lane.put(open_lane.lane_state.writing())
            return charged
        spent, writing = charged
        lane.calls.spent(lane_request, spent)
        began = await open_lane.put(writing)
        return Permit(spent, began + PERMIT_S, asyncio.get_running_loop().time() - asked_at)

    async def inputs(self, call: Call) -> DecisionInputs:
        """See ports.lane.RequestTask; until the next wait they are as the lane has them."""
        lane, context = self._lane, self._lane.context
        next_plan = await self._plan_after(call)
        budget = lane.lane_state.budget_after(call)
        return DecisionInputs(budget, context.backoff, context.jitter(), next_plan)

    async def _plan_after(self, call: Call) -> Plan | None:
        """See lane.next_profile.plan_after; once it is there, the lane can write."""
        lane = self._lane
        while True:
            while not lane.writable.is_set():
                await lane.writable.wait()
            with suppress(LaneLost):  # its call goes on, and is settled once there is a producer
                next_plan = await plan_after(lane, call)
                if lane.writable.is_set():
                    return next_plan

    async def commit(self, call: Call, verdict: Verdict) -> Decision | None:
        lane, open_lane, now = self._lane, self._lane.opened, self._lane.context.clock.now()
        decision, writing = open_lane.lane_state.commit(call, verdict, now)
        try:
            await open_lane.put(writing)
        except LaneLost:
            return None  # reopened, the lane still knows this call, or has ended this task
        lane.calls.settled(call.lane_request)
        if call.asked_too_much:
            self._prepared = replace(call.plan, may_grow=False)
        open_lane.lane_state.apply_decision(call.lane_request, decision)
        lane.progressed()
        lane.context.observer.settled(call, decision, now)
        pump_budget_back(lane)
        if isinstance(decision, DeadLetter):
            _log_dead_letter(decision)
        return decision

    async def take_step(self, computed: ComputedStep) -> None:
        lane, lane_request = self._lane, self.lane_request
        await lane.writable.wait()
        open_lane, now = lane.opened, lane.context.clock.now()
        if lane_request.cancelled:  # its children would begin only to end
            await self.dead_letter(lane_request.cancelled)
            return
        await open_lane.put(open_lane.lane_state.take_computed(lane_request, computed, now))
        lane.context.observer.stepped(lane_request)
        open_lane.lane_state.apply_decision(lane_request, NextStep(computed.step))
        lane.progressed()
        lane.pump()

    async def dead_letter(self, cause: Cause) -> None:
        lane, lane_request = self._lane, self.lane_request
        await lane.writable.wait()
        open_lane = lane.opened
        dead_letter, writing = open_lane.lane_state.dead_letter(
            lane_request, cause, lane.context.clock.now()
        )
        await open_lane.put(writing)
        open_lane.lane_state.apply_decision(lane_request, dead_letter)
        lane.progressed()
        lane.context.observer.dead_lettered(lane_request, dead_letter)
        _log_dead_letter(dead_letter)

    async def pause(self, delay_s: float) -> None:
        if self._lane.leaving:
            raise LaneLost
        left_s = self._lane.seconds_left(self.lane_request)
        with suppress(TimeoutError):  # it was cancelled
            async with self._lane.waits.limit(self.lane_request, None):
                await asyncio.sleep(min(max(delay_s, AGAIN_AT_ONCE_S), left_s))

    async def _prepare(self) -> Prepared:
        if self._prepared is None or self._is_outdated(self._prepared):
            self._prepared = await crash_precautions.prepare(self._lane, self.lane_request)
        return self._prepared

    def _is_outdated(self, prepared: Prepared) -> bool:
        """Whether its profile was changed since, or another one is to be asked."""
        if not isinstance(prepared, Plan):
            return False
        is_gone = self._lane.context.planner.backend_of(prepared) is None
        return is_gone or is_asked_otherwise(self._lane, self.lane_request, prepared)


def _log_dead_letter(dead_letter: DeadLetter) -> None:
    """Without what was written in the answer or the request: kinds and codes alone."""
    if (request := dead_letter.request) is None:
        _log.info("dead letter: %s", _reason(dead_letter))
        return
    schema = schema_name(request.answer_schema).label
    _log.info("dead letter: %s, %s, profile %s", _reason(dead_letter), schema, request.profile)


def _reason(dead_letter: DeadLetter) -> str:
    cause = dead_letter.cause.kind
    if not dead_letter.prior:
        return cause
    last = dead_letter.prior[-1].failure
    times = sum(prior.failure.kind == last.kind for prior in dead_letter.prior)
    code = f" {last.problems[0].code}" if isinstance(last, Invalid) and last.problems else ""
    return f"{last.kind}{code} {times}×, {cause}"
