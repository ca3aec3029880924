"""A tool server: takes calls, runs tools side by side, answers; at least or at most once each."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from answerbus.client.bounded import take_error
from answerbus.client.turns import in_turns
from answerbus.request_key import CallKey
from answerbus.tool_call import ToolCallRecord
from answerbus.tools.call import ToolCall
from answerbus.tools.channel import Channel, ClaimLost, Received, ReplyRefused
from answerbus.tools.claims import Claims, RecordPlace
from answerbus.tools.core.asking import Ask
from answerbus.tools.core.intake import (
    Accept,
    CancelCall,
    Drop,
    DropReason,
    Offered,
    Question,
    RefuseCall,
    take,
)
from answerbus.tools.core.positions import PENDING_MAX, PartitionPositions
from answerbus.tools.core.tool import Tool
from answerbus.tools.questions import Questions
from answerbus.tools.replies import ProgressWriter, Replies
from answerbus.tools.running import Ended, Outcome, RunEnded, TimeLimit, cancel_kept, run

CONCURRENCY_DEFAULT = 16
COMMIT_S = 0.5
DRAIN_S_DEFAULT = 30.0
_RECEIVE_MAX = 50
_LOOK_AGAIN_S = 0.05  # for room, where as much is taken as may be

_log = logging.getLogger(__name__)


class ServerStuckError(Exception):
    """As many tools hang as may run at once: nothing but a new process helps."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A call that is worked on."""

    received: Received
    positions: PartitionPositions
    record: ToolCallRecord

    @property
    def place(self) -> RecordPlace:
        return self.positions, self.received.offset


@dataclass(slots=True)
class _Running:
    """A call that is worked on; what has not begun is left to the next server at the end."""

    task: "asyncio.Task[None]"
    taken: _Taken
    tool: Tool | None = None
    call: ToolCall | None = None  # once it has begun
    places: list[RecordPlace] = field(default_factory=list)  # all that are done when it is
    is_claimed: bool = False  # none of its records is taken by the next server
    awaits_answer: bool = False  # its question may be known before the broker says so
    answer: tuple[_Taken, Accept] | None = None  # to that question, which goes on with it

    @property
    def kept(self) -> tuple[Tool, str] | None:
        """The tool and its state, to be given up if the call is cancelled."""
        if self.tool is None or self.call is None or self.call.state is None:
            return None
        return self.tool, self.call.state


class ToolServer:
    """Serves what is offered over a channel, until `stop`; see serving.py for one on Kafka."""

    def __init__(
        self,
        offered: Offered,
        channel: Channel,
        now: Callable[[], datetime],
        *,
        name: str = "",
        concurrency: int = CONCURRENCY_DEFAULT,
        drain_s: float = DRAIN_S_DEFAULT,
    ) -> None:
        self._offered, self._channel, self._now = offered, channel, now
        self._drain_s, self._concurrency = drain_s, concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._stragglers = Counter[CallKey]()
        self._replies = Replies(channel, name)
        self._running: dict[CallKey, _Running] = {}
        self._cancelling: set[asyncio.Task[None]] = set()
        self._questions = Questions(self._replies, self._is_at_work)
        self._stopping = asyncio.Event()
        self.claims = Claims(channel)
        self.counts: Counter[str] = Counter()
        """Calls by how they ended: `ok`, a failure's code, or the reason of a drop."""

    def stop(self) -> None:
        """Take no more calls, and let those that run end, within the time to drain."""
        self._stopping.set()

    async def run(self) -> None:
        """Serve until `stop`. Raises ServerStuckError, and what the channel raises on receiving."""
        committing = asyncio.create_task(self._commit_often())
        try:
            while not self._stopping.is_set():
                if self.is_stuck:
                    raise ServerStuckError(
                        f"{self._stragglers.total()} tools hang, and no more may run at once"
                    )
                if len(self._running) >= PENDING_MAX or self.claims.pending >= PENDING_MAX:
                    await asyncio.sleep(_LOOK_AGAIN_S)
                    continue
                async for received in in_turns(await self._channel.receive(_RECEIVE_MAX)):
                    self._take(received)
        finally:
            committing.cancel()
            await self._drain()

    @property
    def is_stuck(self) -> bool:
        """Whether no tool can be run any more."""
        return self._stragglers.total() >= self._concurrency

    def _is_at_work(self, call: CallKey) -> bool:
        return call in self._running or self._stragglers[call] > 0

    def _take(self, received: Received) -> None:
        positions = self.claims.begin(received.partition, received.offset, received.end)
        if positions is None:
            return  # done before, by this server or another
        place = (positions, received.offset)
        match take(received.value, self._offered, self._now()):
            case Drop(reason=reason):
                self._drop(reason, place)
            case CancelCall(call=call, tool=tool, state=state):
                if running := self._running.get(call):
                    running.task.cancel()
                    if running.answer:
                        running.places.append(running.answer[0].place)
                        running.answer = None
                    tool, state = running.kept or (tool, state)  # its lane may not have heard yet
                self._cancel(tool, state)
                self.claims.finish(*place)
            case Question(record=record) as question:
                left_s = (record.expires_at - self._now()).total_seconds()
                done = partial(self.claims.finish, *place)
                self._questions.take(question, received, left_s, done)
            case RefuseCall(record=record, failure=failure, error=error):
                if error:
                    _log.error("the tool %s cannot read its arguments", record.tool, exc_info=error)
                self._begin(_Taken(received, positions, record), failure)
            case Accept(record=record) as what:
                self._begin(_Taken(received, positions, record), what)

    def _begin(self, taken: _Taken, what: "Accept | Outcome") -> None:
        record = taken.record
        key = CallKey.of(record)
        running, found = self._running.get(key), self._replies.answered.find(record)
        known = record.args_digest
        if running:
            known = running.taken.record.args_digest
        elif found:
            known = found[0]
        if known != record.args_digest:
            self._drop("conflicting", taken.place)
            return
        if running and running.awaits_answer and isinstance(what, Accept) and what.given:
            running.answer, running.awaits_answer = (taken, what), False
            return
        if running:  # also after a partition went and came back: done is what has its answer
            self.counts["repeated"] += 1
            if running.is_claimed and isinstance(what, Accept) and what.begins:
                self.claims.finish(*taken.place)
            else:
                running.places.append(taken.place)
            return
        task = asyncio.create_task(self._serve(taken, found[1].outcome if found else what))
        self._running[key] = _Running(task, taken, places=[taken.place])
        task.add_done_callback(lambda _: self._ended(key))

    def _ended(self, call: CallKey) -> None:
        answer = self._running.pop(call).answer
        if answer and not self._stopping.is_set():
            self._begin(*answer)

    def _drop(self, reason: DropReason, *places: RecordPlace) -> None:
        self.counts[reason] += 1
        for place in places:
            self.claims.finish(*place)

    def _places(self, taken: _Taken) -> list[RecordPlace]:
        return self._running[CallKey.of(taken.record)].places

    async def _serve(self, taken: _Taken, what: "Accept | Outcome") -> None:
        try:
            if isinstance(what, Accept):
                await self._run_and_reply(taken, what)
            else:
                await self._reply(taken, what)
        except ClaimLost:
            self.counts["not_claimed"] += 1
        except ReplyRefused as error:
            _log.warning("the call %s has no place for its answer: %s", taken.record.call_id, error)
            self._drop("unanswerable", *self._places(taken))
        except asyncio.CancelledError:
            if not self._stopping.is_set():  # else it is left to the next server
                self._drop("cancelled", *self._places(taken))

    async def _run_and_reply(self, taken: _Taken, what: Accept) -> None:
        record, card = what.record, what.tool.card
        finished: RunEnded | None = None
        running = self._running[CallKey.of(record)]
        loop = asyncio.get_running_loop()
        await self._slots.acquire()
        try:
            if self._stopping.is_set():
                return  # left to the next server
            if record.expires_at <= self._now():
                self._drop("expired", *self._places(taken))
                return
            if what.is_once:
                await self._claim(running)
                if record.expires_at <= self._now():  # it could be taken for one that never ran
                    self._drop("expired", *self._places(taken))
                    return
            limit = TimeLimit(card.timeout_s, loop)
            progress = ProgressWriter(self._replies, record, limit)
            call = ToolCall(
                record,
                card.timeout_s,
                progress.report,
                loop,
                taken.received.trace,
                state=what.state,
                given=what.given,
                keep=partial(self._keep, running, what, progress),
            )
            running.tool, running.call = what.tool, call
            since = loop.time()
            finished = await run(what.tool, what.args, call, limit)
            await progress.close()
        finally:
            self._release(CallKey.of(record), finished)
        took_s = loop.time() - since
        if isinstance(finished.outcome, Ask):
            await self._claim_beginning(running, what)
            running.awaits_answer = True
            await progress.ask(finished.outcome)
            self._drop("asks", *self._places(taken))
            return
        if finished.is_late:
            self._cancel(what.tool, call.state)
        if finished.is_late and what.tool.reconcile:  # whether it ran is found out when it is asked
            self._drop("timed_out", *self._places(taken))
            return
        await self._reply(taken, finished.outcome, call.notes, took_s, call.micro_usd)

    def _cancel(self, tool: Tool | None, state: str | None) -> None:
        """Give up what a tool keeps for a call, in the background."""
        if tool is None or tool.cancel is None or state is None:
            return
        task = asyncio.create_task(cancel_kept(tool.cancel, state))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _keep(
        self, running: _Running, what: Accept, progress: ProgressWriter, state: str
    ) -> None:
        await self._claim_beginning(running, what)
        await progress.keep(state)

    async def _claim_beginning(self, running: _Running, what: Accept) -> None:
        """Before a state or a question is written: then no server begins the call again.

        What goes on from a state stays for the next server, as its lane waits for long.
        """
        if what.begins:
            with suppress(ClaimLost):  # another server has the call, and may have begun it
                await self._claim(running)

    async def _claim(self, running: _Running) -> None:
        """All records of the call; again, if the partition went and came back meanwhile."""
        while not running.is_claimed:
            known = len(running.places)
            try:
                await self.claims.claim(running.taken.received.partition, running.places)
            except ClaimLost:
                if len(running.places) == known:
                    raise
            else:
                running.is_claimed = True
                for place in running.places[known:]:  # which came meanwhile
                    self.claims.finish(*place)

    def _release(self, call: CallKey, finished: RunEnded | None) -> None:
        """A tool that hangs keeps its slot until it ends."""
        straggler = finished.straggler if finished else None
        if straggler is None:
            self._slots.release()
            return
        self._stragglers[call] += 1
        straggler.add_done_callback(partial(self._straggler_ended, call))

    def _straggler_ended(self, call: CallKey, straggler: "asyncio.Future[Ended]") -> None:
        take_error(straggler)
        self._stragglers -= Counter({call: 1})
        self._slots.release()

    async def _reply(
        self,
        taken: _Taken,
        outcome: Outcome,
        notes: tuple[str, ...] = (),
        took_s: float = 0.0,
        micro_usd: int | None = None,
    ) -> None:
        await self._replies.result(taken.record, outcome, taken.received, notes, took_s, micro_usd)
        self.counts[outcome.kind if outcome.kind == "ok" else outcome.code] += 1
        for place in self._places(taken):
            self.claims.finish(*place)

    async def _commit_often(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            await self._commit()

    async def _commit(self) -> None:
        try:
            await self.claims.commit()
        except ClaimLost as error:
            _log.info("positions are not committed: %s", error)

    async def _drain(self) -> None:
        """Calls not begun are left to the next server; running ones may end."""
        self._stopping.set()
        self._questions.stop()
        if self._cancelling:
            await asyncio.wait(self._cancelling)  # each is bounded in time
        for running in self._running.values():
            if running.call is None:
                running.task.cancel()
        tasks = [running.task for running in self._running.values()]
        _, left = await asyncio.wait(tasks, timeout=self._drain_s) if tasks else ((), ())
        if left:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=COMMIT_S)
        await self._commit()
