"""One opening of a lane, first or again: each step is safe only after the one before."""

import asyncio
from collections.abc import Callable
from functools import partial

from answerbus.ledger import LaneRecord
from services.worker.context import Context
from services.worker.core.account import Spend
from services.worker.core.ledger import Ledger
from services.worker.lane import letters, opening
from services.worker.lane.books import Books
from services.worker.lane.lane import Lane
from services.worker.lane.open_lane import OpenLane
from services.worker.lane.outbox import OFFSET_EVERY_S, Outbox
from services.worker.lane.queue import Queue
from services.worker.lane.suspects import Suspects
from services.worker.lane.valve import crowd_max
from services.worker.lane.watermark import Watermark
from services.worker.ports import Intake, Shard

MEASURINGS_MAX = 3  # a broker that is slow tells its time vaguely, one of before not at all
CALM_S = 60.0  # a lane that has lasted this long does not crash for what it holds
TRIALS_AFTER_S = 5.0  # of work for all the others, before a suspect may end it again


async def open_once(
    lane: Lane,
    intake: Intake,
    new_shard: Callable[[], Shard],
    on_lost: Callable[[BaseException], None],
    *,
    prove: bool,
) -> OpenLane:
    """A new producer and new books for the lane. Raises if that fails; it may be tried again."""
    forwards = lane.partition >= lane.context.partitions
    if prove and not forwards:
        await intake.prove((await intake.start_offset())[0])
    shard = new_shard()
    try:
        handover_s = lane.context.limits.handover_s
        ours = partial(_not_anothers, lane.context)
        past = await opening.restore(shard, lane.context.worker, handover_s, ours)
    except BaseException:
        await shard.close()
        raise
    every_s = 0.0 if forwards else OFFSET_EVERY_S  # what no ledger knows goes with its offset
    outbox = Outbox(shard, on_lost, lane.context.observer, every_s)
    try:
        return await _fenced(lane, intake, past, outbox, prove=prove and forwards)
    except BaseException:
        await outbox.close()
        raise


async def _fenced(
    lane: Lane, intake: Intake, past: opening.Restored, outbox: Outbox, *, prove: bool
) -> OpenLane:
    """Settle what was left over, and begin where the group stands: nobody else can write now."""
    await _measure(lane, past, outbox)
    now, worker = lane.context.clock.now(), lane.context.worker
    calls = _keep_calls(lane, past.ledger)
    unused = lane.calls.unused
    left_over = opening.settle_left_over(past.ledger, calls, unused.keys(), now, worker)
    suspects = opening.suspects_after(past, left_over, same_process=_is_ours(lane, past.ledger))
    for error in lane.errors:
        suspects.blame(error, frozenset())
    record = opening.opened(past.ledger, lane.context.partitions, worker, now)
    record = record.model_copy(update={"group": lane.context.group})
    inherited = await _inherited(lane, past.ledger.lane)
    books = _books(lane, past.ledger, suspects)
    known = (*past.retries.values(), *unused.values())
    traces = {ticket.request.request_id: ticket.came_with for ticket in known}
    await outbox.put(books.opening(record, left_over, traces).records, None)
    lane.calls.forget_unused()
    lane.errors.clear()
    offset, earliest = await intake.start_offset()
    offset = max(offset, inherited)
    if prove:
        # Not before the fence: what a transaction that is not decided yet says of the offset would
        # be overwritten by an older one, and no ledger tells that its records were forwarded.
        await intake.prove(offset)
    lane.gaps.report(offset, earliest, earliest)
    books.watermark = Watermark(max(offset, earliest))
    if lane.calls.spends != calls:
        raise RuntimeError("a call ended in an error while its lane was opening")
    _queue(lane, books, past)
    lane.was_opened = True
    lane.context.observer.opened(lane.partition, left_over)
    opened_at = asyncio.get_running_loop().time()
    return OpenLane(
        books=books,
        outbox=outbox,
        is_careful=record.openings_without_progress > opening.OPENINGS_BEFORE_CARE,
        calm_at=opened_at + CALM_S,
        trials_from=opened_at + TRIALS_AFTER_S,
    )


async def _not_anothers(context: Context, past: opening.Restored) -> None:
    """Leave the lane to another group whose workers are there: we would fence each other for ever.

    Transactional ids are derived from the topic prefix, which both groups have. Raises Shut.
    """
    lane = past.ledger.lane
    if lane is None or lane.group in {None, context.group}:
        return
    if await context.members_of(lane.group):
        raise opening.Shut(
            f"workers of the consumer group {lane.group} have it ({lane.worker} was the last), and "
            f"this one is of {context.group}: two groups cannot share a topic prefix; stop one, or "
            "give both one `kafka.group_id`, or two `kafka.topic_prefix`"
        )


async def _inherited(lane: Lane, before: LaneRecord | None) -> int:
    """Up to where another group had finished, whose lane this was: its ids may be forgotten."""
    if before is None or before.group in {None, lane.context.group}:
        return 0
    return await lane.context.offset_of(before.group, lane.partition)


async def _measure(lane: Lane, past: opening.Restored, outbox: Outbox) -> None:
    """Hear the broker's time before anything is written down by it: an acknowledgement tells it.

    What is written is the lane's record as it was, or as it becomes.
    """
    context = lane.context
    for _ in range(MEASURINGS_MAX):
        if context.clock.is_measured:
            return
        record = past.ledger.lane or opening.opened(
            past.ledger, context.partitions, context.worker, context.clock.now()
        )
        await outbox.put([letters.record_of(record, lane.partition)], None)


def _keep_calls(lane: Lane, ledger: Ledger) -> set[Spend]:
    """The spends of calls that this process still answers for; other tasks start over."""
    lane.calls.keep(ledger.holds)
    lane.cancel_uncalled()
    return lane.calls.spends


def _is_ours(lane: Lane, ledger: Ledger) -> bool:
    """Whether this very lane wrote last: it lost its producer, and nobody ended."""
    return lane.was_opened and ledger.lane is not None and ledger.lane.worker == lane.context.worker


def _books(lane: Lane, ledger: Ledger, suspects: Suspects) -> Books:
    context = lane.context
    return Books(
        partition=lane.partition,
        partitions=context.partitions,
        worker=context.worker,
        backoff=context.backoff,
        tally=context.tally,
        ledger=ledger,
        watermark=Watermark(0),
        queue=Queue(crowd_max(context.limits), suspects.is_held),
        suspects=suspects,
        observer=context.observer,
    )


def _queue(lane: Lane, books: Books, past: opening.Restored) -> None:
    """Queue what is unfinished, calls in flight first."""
    for ticket in lane.calls:
        books.queue.adopt(ticket)
    for ticket in past.tickets():
        if ticket.request.request_id not in books.queue.tickets:
            books.queue.put(ticket)
