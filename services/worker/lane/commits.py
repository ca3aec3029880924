"""The commits of the main path: spend to permit, call to outcome, ticket to dead letter."""

import asyncio
import logging
from dataclasses import dataclass

from answerbus.dead_letter import BudgetExhausted, Cause, DeadLetter
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.budget.account import Spend
from services.worker.core.budget.ledger import Reserved
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decide import Decision
from services.worker.core.request.ticket import Ticket
from services.worker.lane.lane import Lane
from services.worker.lane.open_lane import OpenLane
from services.worker.lane.outbox import LaneLost

PERMIT_S = 5.0  # how long after the start of its commit a spend may be used

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Permit:
    """A committed spend, for one call, for a few seconds."""

    spend: Spend
    expires_at: float  # loop time
    took_s: float  # from the wish to the permit

    @property
    def left_s(self) -> float:
        """Seconds; not positive for a worker that slept: it must not call late."""
        return self.expires_at - asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The lane has as many suspects and calls as it could blame for one more crash."""


async def spend(
    lane: Lane, ticket: Ticket, plan: Plan, prompt: Prompt
) -> Permit | Reserved | BudgetExhausted | NoRoom:
    """Charge one attempt and commit that; raises LaneLost if it is not known to be committed."""
    while not lane.spendable.is_set():  # it may be taken back before this task has its turn
        if lane.leaving:
            raise LaneLost
        await lane.spendable.wait()
    here, asked_at = lane.opened, asyncio.get_running_loop().time()
    in_flight = [*lane.calls.request_ids()]
    if not here.lane_state.suspects.has_room(ticket.request.request_id, in_flight):
        return NoRoom()
    charged = here.lane_state.spend(ticket, plan, prompt, lane.context.clock.now())
    _let_funded_run(lane, here)
    if isinstance(charged, Reserved | BudgetExhausted):
        return charged
    spent, writing = charged
    lane.calls.spent(ticket, spent)
    began = await here.put(writing)
    return Permit(spent, began + PERMIT_S, asyncio.get_running_loop().time() - asked_at)


def use(lane: Lane, permit: Permit) -> None:
    """The call begins: from here on the spend is answered for, whatever becomes of the lane."""
    lane.calls.began(permit.spend)
    lane.progressed()


async def release(lane: Lane, ticket: Ticket, permit: Permit) -> None:
    """Give a permit back that came too late; raises LaneLost, and the opening lane does it."""
    here = lane.opened
    await here.put(here.lane_state.release(ticket, permit.spend, lane.context.clock.now()))
    lane.calls.gone(permit.spend)
    lane.context.observer.released(ticket, permit.spend)
    _let_funded_run(lane, here)


async def settle(lane: Lane, call: Call) -> Decision:
    """Publish what became of a call: as often as it takes, on whatever producer the lane has."""
    while True:
        while not lane.writable.is_set():
            await lane.writable.wait()
        here, context, now = lane.opened, lane.context, lane.context.clock.now()
        decision, writing = here.lane_state.settle(call, now, context.jitter())
        try:
            await here.put(writing)
        except LaneLost:
            continue  # reopened, the lane still knows this call, or has ended this task
        lane.calls.settled(call.ticket)
        here.lane_state.apply_decision(call.ticket, decision)
        lane.progressed()
        context.observer.settled(call, decision, now)
        _let_funded_run(lane, here)
        if isinstance(decision, DeadLetter):
            _log.info("ended as a dead letter: %s", decision.cause.kind)
        return decision


async def dead_letter(lane: Lane, ticket: Ticket, cause: Cause) -> None:
    """End a request without another call; raises LaneLost, and the ticket comes again."""
    await lane.writable.wait()
    here = lane.opened
    letter, writing = here.lane_state.dead_letter(ticket, cause, lane.context.clock.now())
    await here.put(writing)
    here.lane_state.apply_decision(ticket, letter)
    lane.progressed()
    lane.context.observer.dead_lettered(ticket, letter)
    _log.info("ended as a dead letter: %s", letter.cause.kind)


def _let_funded_run(lane: Lane, here: OpenLane) -> None:
    if here.lane_state.queue.has_funded:
        lane.pump()
