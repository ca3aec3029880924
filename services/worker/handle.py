"""THE MAIN PATH: from a request whose turn has come to its outcome."""

import asyncio
import logging
from dataclasses import replace

from answerbus.dead_letter import BudgetExhausted, Cause, CrashedWorker, DeadlinePassed
from services.digest import text_digest
from services.worker.core.attempt.check import check
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered, Reply, TimedOut, Unavailable
from services.worker.core.budget.ledger import Reserved
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decide import Wait
from services.worker.core.request.ticket import Ticket
from services.worker.core.schema.resolved import Accepted
from services.worker.lane import commits
from services.worker.lane.commits import NoRoom, Permit
from services.worker.lane.crash_mark import crash_mark, lone_call, preparation
from services.worker.lane.lane import Lane
from services.worker.limits.isolation import SHARED, IsolationLease, IsolationLevel
from services.worker.limits.lease import CallLease
from services.worker.ports import Provider
from services.worker.tasks.fair_timeout import fair_timeout

AGAIN_AT_ONCE_S = 0.001
NO_ROOM_S = 1.0  # until one that has to wait for suspects asks again, from behind all others
LATE_S_MAX = 45.0  # how long after the deadline a call may still be waited for

_log = logging.getLogger(__name__)


async def handle(lane: Lane, ticket: Ticket) -> None:
    """Work on one ticket until it has its terminal or waits on the list of retries."""
    suspects, name = lane.lane_state.suspects, ticket.request.request_id
    if crashes := suspects.given_up(name):
        await commits.dead_letter(lane, ticket, CrashedWorker(openings=crashes))
        return
    if suspects.is_held(name) and seconds_left(lane, ticket) <= 0:
        await commits.dead_letter(lane, ticket, DeadlinePassed())  # without a look at what it asks
        return
    plan = await prepared(lane, ticket)
    if not isinstance(plan, Plan):
        await commits.dead_letter(lane, ticket, plan)
        return
    while (pause_s := await attempt(lane, ticket, plan)) and not lane.leaving:
        await asyncio.sleep(min(pause_s, seconds_left(lane, ticket)))


async def prepared(lane: Lane, ticket: Ticket) -> Plan | Cause:
    """What to do; where it may end the worker to find that out, under a mark."""
    planner = lane.context.planner
    if not lane.opened.is_careful and not lane.lane_state.suspects.is_held(
        ticket.request.request_id
    ):
        return planner.plan(ticket.request)
    async with crash_mark(lane, preparation(ticket)):
        plan = planner.plan(ticket.request)
        if isinstance(plan, Plan):
            prompt_of(ticket, plan)
        return plan


async def attempt(lane: Lane, ticket: Ticket, plan: Plan) -> float | None:
    """One turn at the provider; gives the seconds to pause before the next.

    None means that the ticket has its outcome, or waits in the queue.
    """
    visit = CallLease(lane.context.limiter(plan), lane.context.slots)
    stay = IsolationLease(lane.context.isolation, isolation_level_of(lane, ticket))
    try:
        if not await in_time(lane, ticket, plan, visit, stay):
            if seconds_left(lane, ticket) > 0:
                return AGAIN_AT_ONCE_S  # the broker's time was corrected meanwhile
            await commits.dead_letter(lane, ticket, DeadlinePassed())
            return None
        if stay.is_alone:
            async with crash_mark(lane, lone_call(ticket)):
                return await settled(lane, await called(lane, ticket, plan, visit))
        call = await called(lane, ticket, plan, visit)
    finally:
        visit.leave()
        stay.leave()
    return await settled(lane, call)


async def called(lane: Lane, ticket: Ticket, plan: Plan, lease: CallLease) -> Call | float | None:
    """Spend and call; where there was no call, what `attempt` gives."""
    prompt = prompt_of(ticket, plan)
    permit = await commits.spend(lane, ticket, plan, prompt)
    if isinstance(permit, BudgetExhausted):
        await commits.dead_letter(lane, ticket, permit)
        return None
    if isinstance(permit, NoRoom):
        return NO_ROOM_S
    if isinstance(permit, Reserved):
        return None  # the queue gives it another turn when something of the account is free
    if not await may_call(lane, ticket, lease, permit):
        await commits.release(lane, ticket, permit)
        return AGAIN_AT_ONCE_S
    return await ask(lane, ticket, plan, prompt, permit, lease)


async def settled(lane: Lane, call: Call | float | None) -> float | None:
    """What `attempt` gives, once what became of the call is written down."""
    if not isinstance(call, Call):
        return call
    decision = await commits.settle(lane, call)
    return max(decision.delay_s, AGAIN_AT_ONCE_S) if isinstance(decision, Wait) else None


def isolation_level_of(lane: Lane, ticket: Ticket) -> IsolationLevel:
    """Which calls may run beside its own: for a suspect no other lane's, and at last none."""
    suspects, name = lane.lane_state.suspects, ticket.request.request_id
    if ticket not in lane.trial:
        return SHARED
    alone = len(lane.trial) == 1 and suspects.needs_all(name)
    return IsolationLevel(trial=lane.partition, alone=alone, rank=suspects.rank(name))


async def in_time(
    lane: Lane, ticket: Ticket, plan: Plan, lease: CallLease, isolation_lease: IsolationLease
) -> bool:
    """Wait for a place at the profile and in the worker; False when the deadline comes first."""
    counts_tokens = lane.context.limiter(plan).counts_tokens
    tokens = prompt_of(ticket, plan).tokens_max if counts_tokens else 0
    try:
        async with asyncio.timeout(seconds_left(lane, ticket)):
            await lease.enter(ticket.request.workflow_id, tokens)
            await isolation_lease.begin()
    except TimeoutError:
        return False
    return seconds_left(lane, ticket) > 0


async def may_call(lane: Lane, ticket: Ticket, lease: CallLease, permit: Permit) -> bool:
    """Wait for a slot with the permit in hand; False when the call should not be made now."""
    try:
        async with asyncio.timeout(min(permit.left_s, seconds_left(lane, ticket))):
            await lease.begin_call(permit.took_s)
    except TimeoutError:
        return False
    in_time = permit.left_s > 0 and seconds_left(lane, ticket) > 0
    return in_time and lane.spendable.is_set() and lease.may_call


def prompt_of(ticket: Ticket, plan: Plan) -> Prompt:
    """What the model will be told."""
    return plan.prompt(ticket.request, ticket.prior)


async def ask(
    lane: Lane, ticket: Ticket, plan: Plan, prompt: Prompt, permit: Permit, lease: CallLease
) -> Call:
    """Make the call, bounded as a whole, and check what came back."""
    backend = lane.context.planner.backends[plan.profile.name]
    began = asyncio.get_running_loop().time()
    prompt = replace(prompt, attempt=permit.spend.attempt)
    timeout_s = min(plan.profile.timeout_s, max(seconds_left(lane, ticket), 0.0) + LATE_S_MAX)
    lease.call_begins()
    commits.use(lane, permit)
    reply = await bounded(backend.provider, prompt, timeout_s)
    duration_s = asyncio.get_running_loop().time() - began
    lease.report(reply, duration_s)
    lease.leave()
    checked = check(reply.content, plan.schema, plan.wire) if isinstance(reply, Answered) else None
    return Call(
        ticket=ticket,
        plan=plan,
        prompt=prompt,
        spend=permit.spend,
        reply=reply,
        checked=checked,
        answer_digest=text_digest(reply.content) if isinstance(reply, Answered) else None,
        rationale=checked.rationale if isinstance(checked, Accepted) else None,
        duration_ms=int(duration_s * 1000),
    )


async def bounded(provider: Provider, prompt: Prompt, timeout_s: float) -> Reply:
    """A call that ends, and only ever with a Reply: SDKs bound phases, not the whole."""
    try:
        async with fair_timeout(timeout_s):
            return await provider.ask(prompt, timeout_s=timeout_s)
    except TimeoutError:
        return TimedOut(timeout_s)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        _log.exception("the provider %s cancelled its own call", provider.name)
        return Unavailable(status=None, ran=True)
    except Exception:
        _log.exception("the provider %s broke its promise to reply", provider.name)
        return Unavailable(status=None, ran=True)


def seconds_left(lane: Lane, ticket: Ticket) -> float:
    """Until the deadline."""
    return (ticket.deadline - lane.context.clock.now()).total_seconds()
