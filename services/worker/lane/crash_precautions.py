"""Precautions for a request that may end its worker: marks, isolated calls, and a dead letter.

Most requests are under no suspicion; for them all this comes to nothing.
"""

from contextlib import AbstractAsyncContextManager

from answerbus.dead_letter import Cause, CrashedWorker, DeadlinePassed
from services.worker.core.attempt.plan import Plan
from services.worker.core.request.ticket import Ticket
from services.worker.lane.crash_mark import crash_mark, lone_call, preparation
from services.worker.lane.lane import Lane
from services.worker.lane.steps import Prepared, plan_of
from services.worker.limits.isolation import SHARED, IsolationLease, IsolationLevel


def cause_without_preparation(lane: Lane, ticket: Ticket) -> Cause | None:
    """Why it ends without a look at what it asks, if it does."""
    if ticket.cancelled:
        return ticket.cancelled
    suspects, name = lane.lane_state.suspects, ticket.key
    if crashes := suspects.given_up(name):
        return CrashedWorker(openings=crashes)
    waits_for_tools = ticket.run is not None and bool(ticket.run.open)
    if (suspects.is_held(name) or waits_for_tools) and ticket.seconds_left(
        lane.context.clock.now()
    ) <= 0:
        return DeadlinePassed()
    return None


async def prepare(lane: Lane, ticket: Ticket) -> Prepared:
    """How it will be asked; where it may end the worker to find that out, under a mark."""
    request = ticket.request
    is_held = lane.lane_state.suspects.is_held(ticket.key)
    if not lane.opened.is_careful and not is_held:
        return await plan_of(lane, ticket)
    async with crash_mark(lane, preparation(ticket)):
        plan = await plan_of(lane, ticket)
        if isinstance(plan, Plan):
            plan.prompt(request, ticket.prior)
        return plan


def isolation_lease(lane: Lane, ticket: Ticket) -> IsolationLease:
    """Which calls may run beside its own: for a suspect no other lane's, and at last none."""
    if ticket not in lane.trial:
        return IsolationLease(lane.context.isolation, SHARED)
    suspects, name = lane.lane_state.suspects, ticket.key
    alone = len(lane.trial) == 1 and suspects.needs_all(name)
    level = IsolationLevel(trial=lane.partition, alone=alone, rank=suspects.rank(name))
    return IsolationLease(lane.context.isolation, level)


def lone_call_mark(lane: Lane, ticket: Ticket) -> AbstractAsyncContextManager[None]:
    """Says, as long as it is entered, that it is called while nothing else is."""
    return crash_mark(lane, lone_call(ticket))
