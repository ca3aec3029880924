"""One opening of a lane, first or again: each step is safe only after the one before."""

import asyncio
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import partial

from answerbus.attempt import Attempt
from answerbus.budget import Usage
from answerbus.cause import UnknownParent
from answerbus.private.ledger import LaneRecord
from answerbus.request_key import RequestKey
from services.worker.core.budget.account import Spend
from services.worker.core.budget.accounts import Accounts
from services.worker.core.budget.audit import give_back, write_off
from services.worker.core.budget.closed import ClosedIds
from services.worker.core.budget.ledger import Ledger
from services.worker.core.outcome.events import dead_letter_without_call
from services.worker.core.request.lane_request import InRetries, LaneRequest
from services.worker.core.run.children import ChildOutcome, may_ask
from services.worker.core.run.new_run import new_run
from services.worker.core.shared_budget.rules import ZERO
from services.worker.lane import opening
from services.worker.lane.backpressure import counted_shares
from services.worker.lane.context import LaneContext
from services.worker.lane.lane import Lane
from services.worker.lane.open_lane import OpenLane
from services.worker.lane.opening import RecoveredState
from services.worker.lane.outbox import OFFSET_EVERY_S, Outbox, linger_s
from services.worker.lane.state import records
from services.worker.lane.state.lane_state import CALL_ENDED, LaneState
from services.worker.lane.state.open_children import parent_key
from services.worker.lane.state.open_runs import OpenRuns
from services.worker.lane.state.queue import Queue
from services.worker.lane.state.shared_budgets import SharedBudgets
from services.worker.lane.state.suspects import Suspects, suspects_of
from services.worker.lane.state.watermark import Watermark
from services.worker.ports.kafka import Intake, Outgoing, PastCut, Shard

MEASURINGS_MAX = 3  # a slow broker's time is vague, an old broker gives none
STABLE_S = 60.0  # a lane that has lasted this long does not crash for what it holds
TRIALS_AFTER_S = 5.0  # of work for all the others, before a suspect may end it again


def settle_orphaned_calls(
    ledger: Ledger,
    calls: AbstractSet[Spend],
    unused: AbstractSet[Spend],
    now: datetime,
    worker: str,
) -> list[Attempt]:
    """Settle the spends that were found open, but for those of `calls`, which still go on.

    Those of `unused`, whose call is known never to have begun, are given back; those of a
    predecessor, whose calls cannot be settled any more, are charged.
    """
    found = [spend for account in ledger.accounts.live() for spend in account.in_flight.values()]
    found.sort(key=lambda spend: spend.at)  # the first called are the first suspects
    return [
        (give_back if spend in unused else write_off)(ledger, spend, now, worker)
        for spend in found
        if spend not in calls
    ]


def suspects_after(
    recovered: RecoveredState, orphaned: Sequence[Attempt], *, same_process: bool
) -> Suspects:
    """The suspects if the predecessor ended: it has calls left over, or made a mark.

    A predecessor that still wrote when it was shut out has not ended, and is no reason for blame.
    """
    suspects = suspects_of(
        recovered.ledger.lane, lambda closes: recovered.ledger.known(closes) is not None
    )
    lane = recovered.ledger.lane
    if lane is not None and not same_process and not recovered.was_alive:
        cut_off = dict.fromkeys(RequestKey.of(attempt) for attempt in orphaned if attempt.counted)
        if cut_off or lane.watched:
            suspects.blame(lane.watched, cut_off.keys())
    suspects.bound()
    return suspects


async def open_lane(
    lane: Lane, intake: Intake, new_shard: Callable[[], Shard], *, prove: bool
) -> OpenLane:
    """A new producer and new state for the lane. Raises if that fails; it may be tried again."""
    await lane.context.siblings.settled.wait()
    forwards = lane.partition >= lane.context.partitions
    if prove and not forwards:
        await intake.prove((await intake.start_offset())[0])
    shard = new_shard()
    try:
        recovered = await _recovered(lane, shard)
    except BaseException:
        await shard.close()
        raise
    every_s = 0.0 if forwards else OFFSET_EVERY_S  # what no ledger knows goes with its offset
    slots, observer = lane.context.slots, lane.context.observer
    outbox = Outbox(
        shard, lane.on_loss, observer, every_s, lane.batch_bytes, lambda: linger_s(slots.calling)
    )
    try:
        return await _fenced(lane, intake, recovered, outbox, prove=prove and forwards)
    except BaseException:
        await outbox.close()
        raise


async def _recovered(lane: Lane, shard: Shard) -> opening.RecoveredState:
    """What the lane's past says; what is read of it outlives an opening that Kafka fails."""
    limits = lane.context.limits
    recovered = lane.recovered or opening.RecoveredState(
        Ledger(ClosedIds(limits.id_memory), Accounts(limits.account_memory))
    )
    lane.recovered = None
    try:
        handover_s = limits.handover_s
        ours = partial(_not_anothers, lane.context)
        lane.progress = recovered.progress
        # Another worker may have our name, too: only what was opened here was ours before.
        worker, turn = lane.context.worker if lane.was_opened else "", lane.context.reading
        return await opening.restore(shard, worker, handover_s, ours, recovered, turn)
    except (opening.LaneBlocked, PastCut):
        raise
    except BaseException:
        lane.recovered = recovered
        raise
    finally:
        lane.progress = None


async def _fenced(
    lane: Lane, intake: Intake, recovered: opening.RecoveredState, outbox: Outbox, *, prove: bool
) -> OpenLane:
    """Settle what was left over, and begin where the group is; no other worker writes now."""
    await _measure(lane, recovered, outbox)
    now, worker = lane.context.clock.now(), lane.context.worker
    calls = _keep_calls(lane, recovered.ledger)
    unused = lane.calls.unused
    held = {spend for spend in unused if recovered.ledger.holds(spend)}
    orphaned = settle_orphaned_calls(recovered.ledger, calls, unused.keys(), now, worker)
    suspects = suspects_after(recovered, orphaned, same_process=_is_ours(lane, recovered.ledger))
    for error in lane.errors:
        suspects.blame(error, frozenset())
    record = opening.opened(recovered.ledger, lane.context.partitions, worker, now)
    record = record.model_copy(update={"group": lane.context.group})
    inherited = await _inherited(lane, recovered.ledger.lane)
    lane_state = _new_state(lane, recovered, suspects)
    _go_on_with_budgets(lane, lane_state.budgets, held, now)
    unfinished, ended = _open_and_ended(recovered)
    known = (*unfinished, *unused.values())
    traces = {lane_request.key: lane_request.incoming_trace for lane_request in known}
    offset, earliest = await intake.start_offset()
    offset = max(offset, inherited)
    # A successor finds our group in the record, and looks for no offset of the other's.
    taken_over = offset if inherited else None
    await outbox.put(lane_state.opening_records(record, orphaned, traces).records, taken_over)
    lane.calls.forget_unused()
    lane.errors.clear()
    if prove:
        # Not before the fence: what a transaction that is not decided yet says of the offset would
        # be overwritten by an older one, and no ledger shows that its records were forwarded.
        await intake.prove(offset)
    lane.offset_gaps.report(offset, earliest, earliest)
    lane_state.watermark = Watermark(max(offset, earliest))
    if lane.calls.spends != calls:
        raise RuntimeError("a call ended in an error while its lane was opening")
    lane_state.cancellations.found = recovered.runs.cancels
    _queue(lane, lane_state, unfinished, {lane_request.key for lane_request in ended})
    for lane_request in ended:
        outbox.put(_ended_elsewhere(lane_state, lane_request, now), None)
    lane.was_opened = True
    lane.context.observer.opened(lane.partition, orphaned)
    opened_at = asyncio.get_running_loop().time()
    return OpenLane(
        lane_state=lane_state,
        outbox=outbox,
        is_careful=record.openings_without_progress > opening.OPENINGS_BEFORE_CARE,
        stable_at=opened_at + STABLE_S,
        trials_from=opened_at + TRIALS_AFTER_S,
    )


def _open_and_ended(recovered: RecoveredState) -> tuple[list[LaneRequest], list[LaneRequest]]:
    """The requests that are open, and those that have their outcome already."""
    unfinished, ended = list[LaneRequest](), list[LaneRequest]()
    for lane_request in recovered.requests():
        (ended if _has_ended(recovered, lane_request) else unfinished).append(lane_request)
    return unfinished, ended


def _has_ended(recovered: RecoveredState, lane_request: LaneRequest) -> bool:
    """Whether it has its outcome, also where its closed id was forgotten since.

    The account of a run that a model was asked for has an entry of it until then. That of one whose
    record was skipped is as it was before that, if it is known at all.
    """
    name, since = lane_request.key.record_key(), lane_request.origin.timestamp
    if recovered.ledger.closed.has_closed(name, since):
        return True
    run, account_id = lane_request.run, lane_request.account_id
    account = recovered.ledger.accounts.get(account_id)
    is_listed = isinstance(lane_request.progress.stored, InRetries)
    if is_listed or run is None or run.composition or account is None:
        return False
    if records.account_key(account_id).encode() in recovered.keys_unread:
        return False
    return bool(run.own_steps) and lane_request.request.request_id not in account.open


def _ended_elsewhere(
    lane_state: LaneState, lane_request: LaneRequest, now: datetime
) -> Sequence[Outgoing]:
    """The end of its private records, and of the call that waits for it as a child.

    The worker that ended it knew of no open run: a child is an `unknown_parent` there.
    """
    parent = lane_request.request.parent
    written: list[Outgoing] = [*lane_state.runs.end(lane_request, now)]
    above = lane_state.queue.children.named_parent(lane_request)
    if parent and above and may_ask(above.request, above.run, lane_request.request):
        account = lane_state.ledger.account(lane_request.request, now).state
        found = dead_letter_without_call(lane_request, UnknownParent(), account, now)
        ended = ChildOutcome(parent.call_id, found, 0, Usage())
        written += lane_state.runs.apply_signal(above, ended, now)
        lane_state.signal_if_answered(above)
    return lane_state.writing(*written).records


async def _not_anothers(context: LaneContext, recovered: opening.RecoveredState) -> None:
    """Leave the lane to another group whose workers are there: we would fence each other for ever.

    Transactional ids are derived from the topic prefix, which both groups have. Raises LaneBlocked.
    """
    lane = recovered.ledger.lane
    if lane is None or lane.group in {None, context.group}:
        return
    if await context.members_of(lane.group):
        raise opening.LaneBlocked(
            f"workers of the consumer group {lane.group} have it ({lane.worker} was the last), and "
            f"this one is of {context.group}: two groups cannot share a topic prefix; stop one, or "
            "give both one `kafka.group_id`, or two `kafka.topic_prefix`"
        )


async def _inherited(lane: Lane, before: LaneRecord | None) -> int:
    """Up to where another group had finished, whose lane this was: its ids may be forgotten.

    A lane that only forwards has no record that names the group.
    """
    group = before.group if before else lane.context.former_group
    if group in {None, lane.context.group}:
        return 0
    return await lane.context.offset_of(group, lane.partition)


async def _measure(lane: Lane, recovered: opening.RecoveredState, outbox: Outbox) -> None:
    """Get the broker's time from an acknowledgement before anything is written by it.

    What is written is the lane's record as it was, or as it becomes.
    """
    context = lane.context
    for _ in range(MEASURINGS_MAX):
        if context.clock.is_measured:
            return
        record = recovered.ledger.lane or opening.opened(
            recovered.ledger, context.partitions, context.worker, context.clock.now()
        )
        await outbox.put([records.event_record(record, lane.partition)], None)


def _keep_calls(lane: Lane, ledger: Ledger) -> set[Spend]:
    """The spends of calls that this process still answers for; other tasks start over."""
    lane.calls.keep(ledger.holds)
    lane.cancel_uncalled()
    return lane.calls.spends


def _is_ours(lane: Lane, ledger: Ledger) -> bool:
    """Whether this very lane wrote last: it lost its producer, and no worker ended."""
    return lane.was_opened and ledger.lane is not None and ledger.lane.worker == lane.context.worker


def _go_on_with_budgets(
    lane: Lane, budgets: SharedBudgets, unused: AbstractSet[Spend], now: datetime
) -> None:
    """Calls of this process stay charged to shared budgets; spends that it has not used do not."""
    for lane_request, spend in lane.calls.items():
        budgets.adopt(lane_request.request.labels, spend)
    for spend in unused:
        labels = lane.calls.unused[spend].request.labels
        budgets.adopt(labels, spend)
        budgets.settle(labels, spend, ZERO, now)
    budgets.opened(now)


def _new_state(lane: Lane, recovered: opening.RecoveredState, suspects: Suspects) -> LaneState:
    context, ledger = lane.context, recovered.ledger
    queue = Queue(counted_shares(context), suspects.is_held)
    return LaneState(
        partition=lane.partition,
        partitions=context.partitions,
        worker=context.worker,
        counters=context.counters,
        ledger=ledger,
        watermark=Watermark(0),
        queue=queue,
        suspects=suspects,
        observer=context.observer,
        runs=OpenRuns(
            partition=lane.partition,
            queue=queue,
            ledger=ledger,
            observer=context.observer,
            tools=context.runs.tools,
            problems_of=context.planner.problems_of,
            oversized=lane.oversized,
            is_on=context.runs.is_on,
        ),
        oversized=lane.oversized,
        complete=context.runs.complete,
        budgets=SharedBudgets(
            lane.partition,
            context.partitions,
            queue.shared_budgets_back,
            context.budget_rules,
            recovered.budgets,
            # What is left of budgets that are no more; a worker that has some has their topics.
            is_on=context.runs.is_on or bool(context.budget_rules.by_label),
        ),
    )


def _keep_account(ledger: Ledger, lane_request: LaneRequest, now: datetime) -> None:
    """The account is kept until the outcome, and has the entry by which `_has_ended` decides.

    It has none of a run where an operator has skipped its record.
    """
    request, run = lane_request.request, lane_request.run
    if run and run.own_steps and not run.composition:
        ledger.keep_open(request, run.own_steps[-1].attempt, now)
    # Of one whose proposals have ended, no attempt keeps the account.
    if account := ledger.accounts.get(lane_request.account_id):
        account.admit(request.request_id)


def _queue(
    lane: Lane,
    lane_state: LaneState,
    unfinished: Sequence[LaneRequest],
    ended: AbstractSet[RequestKey],
) -> None:
    """Queue what is unfinished, calls in flight first; children of runs that have `ended` end."""
    runs = {lane_request.key: lane_request.run for lane_request in unfinished}
    for lane_request in lane.calls:
        if lane_request.run:  # what was not committed of it is forgotten
            begun = new_run(lane_request.run.definition, lane_request.request)
            lane_request.change_run(runs.get(lane_request.key) or begun)
        lane_state.queue.adopt(lane_request)
    known = (*lane_state.queue.requests.values(), *unfinished)
    asking = {parent_key(lane_request.request) for lane_request in known}
    for lane_request in unfinished:
        _keep_account(lane_state.ledger, lane_request, lane.context.clock.now())
        if lane_request.key not in lane_state.queue.requests:
            if lane_request.run and lane_request.key in asking:
                lane_request.await_tools_first()
            lane_state.queue.put(lane_request)
            lane_state.runs.watch(lane_request)
    lane_state.queue.children.put_all(lane_state.ledger.accounts)
    for lane_request in lane_state.queue.requests.values():
        lane_state.cancel_if_asked(lane_request)
    for lane_request in lane_state.queue.requests.values():
        lane_state.stop_children(lane_request)
        if parent_key(lane_request.request) in ended:
            lane_state.queue.cancel(lane_request, CALL_ENDED)
