"""How a request is asked now: as it is, or as the next step of its run."""

from answerbus.dead_letter import Cause, UnknownParent
from services.worker.compositions import compose
from services.worker.core.attempt.plan import Plan
from services.worker.core.request.ticket import Ticket
from services.worker.core.run.composition import ComputedStep
from services.worker.core.run.delegation import depth_of, within
from services.worker.core.run.run import Run
from services.worker.lane.lane import Lane

Prepared = Plan | Cause | ComputedStep


async def plan_of(lane: Lane, ticket: Ticket) -> Prepared:
    """A run begins here, with the definition that it keeps from its first step on."""
    planner, request = lane.context.planner, ticket.request
    above = lane.lane_state.queue.children.parent_of(ticket)
    if request.parent and above is None:
        return UnknownParent()
    if request.agent is None:
        return planner.plan(request)
    run = ticket.run or planner.begin_run(request)
    if not isinstance(run, Run):
        return run
    ticket.run = run = (
        run if above is None or above.run is None else within(run, above.run, depth_of(request))
    )
    state, now = lane.lane_state, lane.context.clock.now()
    account = state.ledger.account(request, now)
    composed = compose(planner, request, run, state.queue.children.funds(ticket, account))
    if composed is not None:
        return composed
    is_last = state.is_last_attempt(ticket, now)
    return await planner.plan_step(request, run, is_last_attempt=is_last)
