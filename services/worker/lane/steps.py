"""How a request is asked now: as it is, or as the next step of its run."""

from answerbus.dead_letter import Cause, UnknownParent
from services.worker.core.attempt.plan import Plan
from services.worker.core.request.ticket import Ticket
from services.worker.core.run.delegation import within
from services.worker.core.run.run import Run
from services.worker.lane.lane import Lane


async def plan_of(lane: Lane, ticket: Ticket) -> Plan | Cause:
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
    ticket.run = run = within(run, above.run) if above and above.run else run
    is_last = lane.lane_state.is_last_attempt(ticket, lane.context.clock.now())
    return await planner.plan_step(request, run, is_last_attempt=is_last)
