"""How a request is asked now: as it is, or as the next step of its run."""

from answerbus.dead_letter import Cause, UnknownParent
from services.worker.core.attempt.plan import Plan
from services.worker.core.request.ticket import Ticket
from services.worker.core.run.run import Run
from services.worker.lane.lane import Lane


async def plan_of(lane: Lane, ticket: Ticket) -> Plan | Cause:
    """A run begins here, with the definition that it keeps from its first step on."""
    planner, request = lane.context.planner, ticket.request
    if request.parent and lane.lane_state.queue.children.parent_of(ticket) is None:
        return UnknownParent()
    if request.agent is None:
        return planner.plan(request)
    run = ticket.run or planner.begin_run(request)
    if not isinstance(run, Run):
        return run
    ticket.run = run
    is_last = _is_last_attempt(lane, ticket)
    return await planner.plan_step(request, run, is_last_attempt=is_last)


def _is_last_attempt(lane: Lane, ticket: Ticket) -> bool:
    """Whether its account leaves it this attempt alone: no result of a tool could be told."""
    now, state = lane.context.clock.now(), lane.lane_state
    account = state.ledger.account(ticket.request, now)
    return state.attempts_left(ticket, now) - len(account.in_flight) <= 1
