"""The next plan of a request: for the first of its profiles that can be asked within the budget.

The request is asked as it is, or the next step of its run. The order is that of the rule in
core/attempt/fallback.py. A profile whose dialect refuses the schema, or whose worst case is more
than the rest of the budget, is left out with a note.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from answerbus.dead_letter import (
    Cause,
    DeadlinePassed,
    HostileSchema,
    MissingTools,
    UnknownParent,
    UnsupportedSchema,
    UnverifiedSteps,
)
from answerbus.failure import Invalid, Malformed
from services.worker.core.attempt.fallback import Failed, Hop
from services.worker.core.attempt.plan import Plan
from services.worker.core.budget.remaining_budget import BudgetUnit, first_exhausted
from services.worker.core.outcome.call import Call
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.composition import ComputedStep, FreeBudget
from services.worker.core.run.delegation import depth_of, within
from services.worker.core.run.run import Run
from services.worker.lane.lane import Lane
from services.worker.planning.compositions import asked_profile, compose

Prepared = Plan | Cause | ComputedStep
WhatIsTooLittle = Callable[[Plan], BudgetUnit | None]


async def plan_of(lane: Lane, lane_request: LaneRequest) -> Prepared:
    """A run begins here, with the definition that it keeps from its first step on."""
    request, children = lane_request.request, lane.lane_state.queue.children
    if request.parent and children.parent_of(lane_request) is None:
        return UnknownParent()
    if request.agent is not None:
        await lane.context.planner.prepare(request)
        run = lane_request.run or await _new_run(lane, lane_request)
        above = lane.lane_state.queue.children.parent_of(lane_request)  # it may have ended since
        if not isinstance(run, Run):
            return run
        if above is not None and above.run is not None:
            run = within(run, above.run, depth_of(request))
        lane_request.change_run(run)

    def exhausted_by(plan: Plan) -> BudgetUnit | None:
        return lane.lane_state.exhausted_by(lane_request, plan, lane.context.clock.now())

    return await _planned(lane, lane_request, lane_request.progress.failed, exhausted_by)


async def plan_after(lane: Lane, call: Call) -> Plan | None:
    """How the attempt after `call` is asked, if by another profile. Raises LaneLost."""
    failed, plan, lane_request = call.failure or call.refused_by_model, call.plan, call.lane_request
    if failed is None or not plan.may_change_profile:
        return None
    known = lane_request.progress
    counted, prior = known.failed, known.prior
    if call.is_counted:
        is_shown = isinstance(failed, Malformed | Invalid)
        counted = call.failed_after(failed)
        prior = call.prior_after(failed, call.kept_answer if is_shown else None)

    def exhausted_by(other: Plan) -> BudgetUnit | None:
        state, now = lane.lane_state, lane.context.clock.now()
        if which := first_exhausted(call.request, other, prior, state.budget_after(call)):
            return which
        prompt = other.prompt(call.request, prior)
        need = 1, prompt.tokens_max, other.worst_cost(prompt)
        return state.budgets.beyond(call.request.labels, need, now)

    found = await _planned(lane, lane_request, counted, exhausted_by)
    return found if isinstance(found, Plan) and found.profile.name != plan.profile.name else None


def is_asked_otherwise(lane: Lane, lane_request: LaneRequest, plan: Plan) -> bool:
    """Whether another profile is to be asked by now than the one that was planned for."""
    if not plan.may_change_profile:
        return False
    first = asked_profile(lane_request.request, lane_request.run)
    return lane.context.planner.hops(first, lane_request.progress.failed) != plan.hops


async def _planned(
    lane: Lane, lane_request: LaneRequest, failed: Failed, exhausted_by: WhatIsTooLittle
) -> Prepared:
    """The plan is made again where profiles went away, or came back, while it was made."""
    planner = lane.context.planner
    first, left_out = asked_profile(lane_request.request, lane_request.run), set[Hop]()
    while True:
        hops = planner.hops(first, failed, left_out)
        plan = await _plan_for(lane, lane_request, hops[-1].profile if hops else first)
        if hops != planner.hops(first, failed, left_out):
            continue
        if not hops or isinstance(plan, ComputedStep):
            return plan
        why = _why_not(plan, exhausted_by)
        if isinstance(plan, Plan) and why is None:
            return replace(plan, hops=hops)
        left_out.add(hops[-1])
        lane_request.add_note(hops[-1].note_if_left_out(why or ""))


def _why_not(plan: Plan | Cause, exhausted_by: WhatIsTooLittle) -> str | None:
    match plan:
        case Plan():
            which = exhausted_by(plan)
            return which and f"too little is left of the budget ({which})"
        case UnsupportedSchema() | HostileSchema():
            return "its dialect cannot carry the schema"
        case _:
            return plan.kind.replace("_", " ")


async def _plan_for(lane: Lane, lane_request: LaneRequest, profile: str) -> Prepared:
    """How it is asked of a profile: the request as it is, or the next step of its run."""
    planner, request, run = lane.context.planner, lane_request.request, lane_request.run
    asked = request
    if profile != request.profile:
        asked = request.model_copy(update={"profile": profile})
    if run is None:
        return planner.plan(asked, await planner.prepare(asked))
    funds = partial(_free_budget, lane, lane_request)
    composed = await compose(planner, request, run, funds, profile)
    if composed is not None:
        return composed
    is_last = lane.lane_state.is_last_attempt(lane_request, lane.context.clock.now())
    return await planner.plan_step(asked, run, is_last_attempt=is_last)


def _free_budget(lane: Lane, lane_request: LaneRequest) -> FreeBudget:
    account = lane.lane_state.ledger.account(lane_request.request, lane.context.clock.now())
    return lane.lane_state.queue.children.free_budget(lane_request, account)


async def _new_run(lane: Lane, lane_request: LaneRequest) -> Run | Cause:
    """Without topics of runs there is no proof to look for, and no agent either."""
    is_resumed = lane_request.request.resumed is not None and lane.context.runs.is_on
    fault = await _unproved(lane, lane_request) if is_resumed else None
    return fault or await _begun(lane, lane_request)


async def _unproved(lane: Lane, lane_request: LaneRequest) -> Cause | None:
    """Why a run cannot go on from the steps in its request: any publisher can write some there."""
    try:
        async with lane.waits.limit(lane_request, lane.seconds_left(lane_request)):
            is_resumed = await lane.context.runs.is_resumed(
                lane_request.request, lane_request.origin
            )
    except TimeoutError:
        return lane_request.cancelled or DeadlinePassed()
    return None if is_resumed else UnverifiedSteps()


async def _begun(lane: Lane, lane_request: LaneRequest) -> Run | Cause:
    """Its tools may have been announced just before it was published, and not be heard of yet."""
    planner = lane.context.planner
    found = planner.begin_run(lane_request.request)
    if not isinstance(found, MissingTools):
        return found
    with suppress(TimeoutError):  # its time is over, or it was cancelled
        async with lane.waits.limit(lane_request, lane.seconds_left(lane_request)):
            await planner.catch_up()
    return lane_request.cancelled or planner.begin_run(lane_request.request)
