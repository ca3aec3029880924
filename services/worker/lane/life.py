"""A lane's life: opened, suspended by rebalances, reopened after a loss, drained, closed."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

from services.worker.core.ledger import Ledger, Spend
from services.worker.lane import opening
from services.worker.lane.books import Books
from services.worker.lane.lane import Lane, State
from services.worker.lane.outbox import LaneLost, Outbox
from services.worker.lane.queue import Queue
from services.worker.lane.watermark import Watermark
from services.worker.ports import Intake, Shard

REOPEN_FIRST_S = 0.2
REOPEN_MAX_S = 5.0
CALM_S = 60.0  # a lane that has lasted this long does not crash for what it holds

_log = logging.getLogger(__name__)


class Life:
    """Moves one lane through its states; `stuck` says why it cannot open, for people."""

    def __init__(self, lane: Lane, intake: Intake, new_shard: Callable[[], Shard]) -> None:
        self.lane = lane
        self.stuck: str | None = None
        self._intake = intake
        self._new_shard = new_shard
        self._assigned = True
        self._orphaned = False
        self._step: asyncio.Task[None] | None = None
        lane.on_loss = self._lose
        lane.on_idle = self._on_idle

    def begin(self) -> None:
        """Assigned: open or go on, in the background, since the callback must return at once."""
        self._assigned, self._orphaned = True, False
        if self.lane.state is State.SUSPENDED:
            self._do(self._regain())
        elif self.lane.state is State.OPENING:
            self._do(self._open(prove=False))

    def suspend(self) -> None:
        """Revoked: spend nothing new, let calls go on."""
        self._assigned = False
        if self.lane.state is State.OPEN:
            self.lane.enter(State.SUSPENDED)
        elif self._step:
            self._step.cancel()

    def orphan(self) -> None:
        """Assigned elsewhere: save the answers of calls in flight while nobody has fenced us."""
        self._orphaned = True
        if self.lane.state is State.OPENING or not self.lane.tasks:
            self._do(self.close())
        else:
            self.lane.cancel_uncalled()

    async def drain(self, limit_s: float) -> None:
        """Stop spending, wait for calls in flight, leave a clean lane behind."""
        lane = self.lane
        if lane.state is State.OPEN:
            lane.valve.shut()
            lane.enter(State.SUSPENDED)
        lane.cancel_uncalled()
        if lane.tasks:
            await asyncio.wait(list(lane.tasks.values()), timeout=limit_s)
        if lane.outbox and lane.state is State.SUSPENDED:
            progress = lane.books.progress(lane.context.clock.now())
            await asyncio.wait([lane.outbox.put([progress] if progress else [], None)])
        await self.close()

    async def close(self) -> None:
        """End at once; what is in flight is written off by whoever opens next."""
        self.lane.enter(State.CLOSED)
        me = asyncio.current_task()
        ending = [*self.lane.tasks.values(), *([self._step] if self._step else [])]
        others = [task for task in ending if task is not me and not task.done()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        await self._drop_outbox()
        self.lane.valve.count_held(0)

    async def _open(self, *, prove: bool) -> None:
        delay_s = REOPEN_FIRST_S
        while True:
            try:
                await self._open_once(prove=prove)
            except opening.UnreadableState as error:
                self.stuck = str(error)
                _log.exception("lane %d stays shut", self.lane.partition)
                return
            except Exception as error:
                self.stuck = f"{type(error).__name__}: {error}"
                _log.warning("lane %d did not open: %s", self.lane.partition, self.stuck)
                await asyncio.sleep(delay_s)
                delay_s, prove = min(delay_s * 2, REOPEN_MAX_S), True
            else:
                self.stuck = None
                return

    async def _open_once(self, *, prove: bool) -> None:
        """In this order: each step is safe only after the one before."""
        await self._drop_outbox()
        if prove:
            await self._intake.prove((await self._intake.start_offset())[0])
        lane, shard = self.lane, self._new_shard()
        try:
            past = await opening.restore(shard)
        except BaseException:
            await shard.close()
            raise
        lane.outbox = Outbox(shard, self._lose)
        now = lane.context.clock.now()
        ours = self._keep_calls(past.ledger)
        lost = opening.write_off_strangers(past.ledger, ours, now, lane.context.worker)
        record = opening.opened(past.ledger, lane.context.partitions, lane.context.worker, now)
        books = self._books(past.ledger)
        await lane.outbox.put(books.opening(record, lost).records, None)
        offset, earliest = await self._intake.start_offset()
        self._report_gap(offset, earliest)
        books.watermark = Watermark(max(offset, earliest))
        self._install(books, past, record.openings_without_progress)

    def _keep_calls(self, ledger: Ledger) -> set[Spend]:
        """The spends of calls that this process still answers for; other tasks start over."""
        lane = self.lane
        lane.calls = {ticket: spend for ticket, spend in lane.calls.items() if ledger.holds(spend)}
        lane.cancel_uncalled()
        return set(lane.calls.values())

    def _books(self, ledger: Ledger) -> Books:
        context = self.lane.context
        return Books(
            partition=self.lane.partition,
            partitions=context.partitions,
            worker=context.worker,
            backoff=context.backoff,
            tally=context.tally,
            ledger=ledger,
            watermark=Watermark(0),
            queue=Queue(),
        )

    def _install(self, books: Books, past: opening.Restored, openings: int) -> None:
        """Queue what is unfinished, calls in flight first, and let records come."""
        lane = self.lane
        for ticket in lane.calls:
            books.queue.adopt(ticket)
        for ticket in past.tickets():
            if ticket.request.request_id not in books.queue.tickets:
                books.queue.put(ticket)
        lane.books = books
        lane.single = openings > opening.OPENINGS_BEFORE_SINGLE
        lane.suspect_openings = openings if openings > opening.OPENINGS_BEFORE_BURIAL else None
        lane.calm_at = asyncio.get_running_loop().time() + CALM_S
        self._go_on()

    def _go_on(self) -> None:
        self.lane.valve.open_at(self.lane.books.watermark.position)
        self.lane.enter(State.OPEN)
        self.lane.pump()

    async def _regain(self) -> None:
        """The partition came back: unless somebody has fenced us meanwhile, simply go on."""
        if self.lane.outbox is None:
            return
        presence = self.lane.books.presence(self.lane.context.clock.now())
        try:
            await self.lane.outbox.put(presence.records, None)
        except LaneLost:
            return  # `_lose` has already begun to reopen
        self._go_on()

    def _lose(self, error: BaseException) -> None:
        """The producer is gone: whoever has a call in flight waits, everything else starts over."""
        lane = self.lane
        if lane.state in {State.OPENING, State.CLOSED}:
            return
        _log.warning("lane %d lost its producer: %s", lane.partition, type(error).__name__)
        lane.enter(State.OPENING)
        lane.cancel_uncalled()
        if self._assigned:
            lane.valve.shut()
            self._do(self._open(prove=True))
        elif self._orphaned:
            self._do(self.close())

    def _on_idle(self) -> None:
        if self._orphaned and self.lane.state is State.SUSPENDED:
            self._do(self.close())

    def _do(self, step: Coroutine[None, None, None]) -> None:
        if self._step:
            self._step.cancel()
        self._step = asyncio.create_task(step)

    def _report_gap(self, offset: int, earliest: int) -> None:
        if offset >= earliest:
            return
        self.lane.context.tally.unread += earliest - offset
        _log.error(
            "lane %d: offsets %d to %d were deleted before they were read; lengthen the retention "
            "of the requests topic or add workers",
            self.lane.partition,
            offset,
            earliest - 1,
        )

    async def _drop_outbox(self) -> None:
        outbox, self.lane.outbox = self.lane.outbox, None
        if outbox:
            await outbox.close()
