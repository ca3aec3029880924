"""One opening of a lane, first or again: each step is safe only after the one before."""

import asyncio
from collections.abc import Callable
from functools import partial

from answerbus.ledger import LaneRecord
from services.worker.context import Context
from services.worker.core.account import Spend
from services.worker.core.ledger import Ledger
from services.worker.lane import opening, records
from services.worker.lane.backpressure import crowd_max
from services.worker.lane.lane import Lane
from services.worker.lane.lane_state import LaneState
from services.worker.lane.outbox import OFFSET_EVERY_S, Outbox
from services.worker.lane.queue import Queue
from services.worker.lane.suspects import Suspects
from services.worker.lane.watermark import Watermark
from services.worker.ports import Intake, Shard

MEASURINGS_MAX = 3  # a broker that is slow tells its time vaguely, one of before not at all
STABLE_S = 60.0  # a lane that has lasted this long does not crash for what it holds
TRIALS_AFTER_S = 5.0  # of work for all the others, before a suspect may end it again


async def open_lane(
    lane: Lane,
    intake: Intake,
    new_shard: Callable[[], Shard],
    on_lost: Callable[[BaseException], None],
    *,
    prove: bool,
) -> None:
    """Give the lane a new producer and new state. Raises if that fails; it may be tried again."""
    await lane.drop_outbox()
    forwards = lane.partition >= lane.context.partitions
    if prove and not forwards:
        await intake.prove((await intake.start_offset())[0])
    shard = new_shard()
    try:
        handover_s = lane.context.limits.handover_s
        ours = partial(_not_anothers, lane.context)
        recovered = await opening.restore(shard, lane.context.worker, handover_s, ours)
    except BaseException:
        await shard.close()
        raise
    every_s = 0.0 if forwards else OFFSET_EVERY_S  # what no ledger knows goes with its offset
    lane.outbox = Outbox(shard, on_lost, lane.context.observer, every_s)
    await _measure(lane, recovered)
    now, worker = lane.context.clock.now(), lane.context.worker
    calls = _keep_calls(lane, recovered.ledger)
    left_over = opening.settle_left_over(recovered.ledger, calls, lane.unused.keys(), now, worker)
    suspects = opening.suspects_after(
        recovered, left_over, same_process=_is_ours(lane, recovered.ledger)
    )
    for error in lane.errors:
        suspects.blame(error, frozenset())
    record = opening.opened(recovered.ledger, lane.context.partitions, worker, now)
    record = record.model_copy(update={"group": lane.context.group})
    inherited = await _inherited(lane, recovered.ledger.lane)
    lane_state = _books(lane, recovered.ledger, suspects)
    known = (*recovered.retries.values(), *lane.unused.values())
    traces = {ticket.request.request_id: ticket.incoming_trace for ticket in known}
    await lane.outbox.put(lane_state.opening_records(record, left_over, traces).records, None)
    lane.unused.clear()
    lane.errors.clear()
    offset, earliest = await intake.start_offset()
    offset = max(offset, inherited)
    if prove and forwards:
        # Not before the fence: what a transaction that is not decided yet says of the offset would
        # be overwritten by an older one, and no ledger tells that its records were forwarded.
        await intake.prove(offset)
    lane.offset_gaps.report(offset, earliest, earliest)
    lane_state.watermark = Watermark(max(offset, earliest))
    if set(lane.calls.values()) != calls:
        raise RuntimeError("a call ended in an error while its lane was opening")
    _install(lane, lane_state, recovered, record.openings_without_progress)
    lane.context.observer.opened(lane.partition, left_over)


async def _not_anothers(context: Context, recovered: opening.RecoveredState) -> None:
    """Leave the lane to another group whose workers are there: we would fence each other for ever.

    Transactional ids are derived from the topic prefix, which both groups have. Raises Shut.
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
    """Up to where another group had finished, whose lane this was: its ids may be forgotten."""
    if before is None or before.group in {None, lane.context.group}:
        return 0
    return await lane.context.offset_of(before.group, lane.partition)


async def _measure(lane: Lane, recovered: opening.RecoveredState) -> None:
    """Hear the broker's time before anything is written down by it: an acknowledgement tells it.

    What is written is the lane's record as it was, or as it becomes.
    """
    context = lane.context
    for _ in range(MEASURINGS_MAX):
        if context.clock.is_measured or lane.outbox is None:
            return
        record = recovered.ledger.lane or opening.opened(
            recovered.ledger, context.partitions, context.worker, context.clock.now()
        )
        await lane.outbox.put([records.event_record(record, lane.partition)], None)


def _keep_calls(lane: Lane, ledger: Ledger) -> set[Spend]:
    """The spends of calls that this process still answers for; other tasks start over."""
    lane.calls = {ticket: spend for ticket, spend in lane.calls.items() if ledger.holds(spend)}
    lane.cancel_uncalled()
    return set(lane.calls.values())


def _is_ours(lane: Lane, ledger: Ledger) -> bool:
    """Whether this very lane wrote last: it lost its producer, and no worker ended."""
    return lane.was_opened and ledger.lane is not None and ledger.lane.worker == lane.context.worker


def _books(lane: Lane, ledger: Ledger, suspects: Suspects) -> LaneState:
    context = lane.context
    return LaneState(
        partition=lane.partition,
        partitions=context.partitions,
        worker=context.worker,
        backoff=context.backoff,
        counters=context.counters,
        ledger=ledger,
        watermark=Watermark(0),
        queue=Queue(crowd_max(context.limits), suspects.is_held),
        suspects=suspects,
        observer=context.observer,
    )


def _install(
    lane: Lane, lane_state: LaneState, recovered: opening.RecoveredState, openings: int
) -> None:
    """Queue what is unfinished, calls in flight first."""
    for ticket in lane.calls:
        lane_state.queue.adopt(ticket)
    for ticket in recovered.tickets():
        if ticket.request.request_id not in lane_state.queue.tickets:
            lane_state.queue.put(ticket)
    lane.lane_state = lane_state
    now = asyncio.get_running_loop().time()
    lane.is_careful = openings > opening.OPENINGS_BEFORE_CARE
    lane.was_opened = True
    lane.stable_at, lane.trials_from = now + STABLE_S, now + TRIALS_AFTER_S
