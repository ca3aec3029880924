"""The open runs of a lane: what they write, whose time is over, and who is cancelled."""

import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

from answerbus.budget import AccountState
from answerbus.cause import Cancelled
from answerbus.control import Approval, Cancel
from answerbus.private.runs import (
    RunCancelRecord,
    RunRecord,
    call_key,
    cancel_key,
    runs_key,
    step_key,
)
from answerbus.step import ToolEnded
from answerbus.tool_result import ToolProgress, ToolResult
from services.worker.core.outcome.call import Call
from services.worker.core.request.ticket import Ticket
from services.worker.core.run import transitions
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import Run
from services.worker.core.run.transitions import Change
from services.worker.core.schema.resolved import AcceptedStep
from services.worker.lane.state import records
from services.worker.ports import OutRecord

UNKNOWN_TOOL = "unknown"
CANCELS_KEPT = timedelta(days=1)  # of requests that were not read yet
CANCELS_MAX = 10_000


def _no_chance(length: int) -> bytes:
    return bytes(length)


def _always(_: str, __: datetime) -> bool:
    return True


@dataclass(slots=True, kw_only=True)
class OpenRuns:
    """See the module. A lane without agents has one that stays empty.

    `reply_topic` is where tool servers answer, `chance` makes the tokens of calls, `may_call` says
    whether calls of a toolset can be written now. `stopped` are tickets that are to end at once,
    wherever they stand in the queue. `ended` counts tool calls.
    """

    partition: int = 0
    reply_topic: str = "answerbus.tool-results.v1"
    chance: Callable[[int], bytes] = _no_chance
    may_call: Callable[[str, datetime], bool] = _always
    cancels: dict[str, RunCancelRecord] = field(default_factory=dict)
    stopped: list[Ticket] = field(default_factory=list)
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    _due: list[tuple[datetime, int, Ticket]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    def take_step(
        self, call: Call, step: AcceptedStep, account: AccountState, now: datetime
    ) -> list[OutRecord]:
        """An answer was a step: it, and the calls that it makes."""
        ticket, run = call.ticket, _run_of(call.ticket)
        inputs, attempt = self._inputs(ticket, now), call.spend.attempt
        change = transitions.take_step(run, step, attempt, call.usage, ticket.used, account, inputs)
        head = [] if run.own_steps else [self._head(ticket, run)]
        return [*head, *self._apply(ticket, change)]

    def result_came(self, ticket: Ticket, result: ToolResult, now: datetime) -> list[OutRecord]:
        """A tool server has ended a call; nothing where it may not."""
        run = _run_of(ticket)
        return self._apply(ticket, transitions.result_came(run, result, self._inputs(ticket, now)))

    def progress_came(self, ticket: Ticket, said: ToolProgress, now: datetime) -> list[OutRecord]:
        """A tool server is at work on a call; nothing where it may not be."""
        run = _run_of(ticket)
        return self._apply(ticket, transitions.progress_came(run, said, self._inputs(ticket, now)))

    def approval_came(self, ticket: Ticket, approval: Approval, now: datetime) -> list[OutRecord]:
        """A person has decided about a call; nothing where it was not asked."""
        run, inputs = _run_of(ticket), self._inputs(ticket, now)
        return self._apply(ticket, transitions.approval_came(run, approval, inputs))

    def time_passed(self, now: datetime) -> Iterator[tuple[Ticket, list[OutRecord]]]:
        """Each run with calls whose time is over, and what becomes of them."""
        while self._due and self._due[0][0] <= now:
            ticket = heapq.heappop(self._due)[2]
            run = ticket.run
            if run is None or run.due_at is None or run.due_at > now:
                continue  # it ended, or goes on: another entry stands for that
            yield (
                ticket,
                self._apply(ticket, transitions.time_passed(run, self._inputs(ticket, now))),
            )

    def next_moment(self) -> datetime | None:
        """When `time_passed` may have something to do."""
        return self._due[0][0] if self._due else None

    def watch(self, ticket: Ticket) -> None:
        """Look at the run again when the time of its first call is over."""
        if ticket.run and ticket.run.due_at:
            heapq.heappush(self._due, (ticket.run.due_at, next(self._numbers), ticket))

    def end(self, ticket: Ticket, now: datetime) -> list[OutRecord]:
        """The request has its outcome: calls that are open end, and private records are ended."""
        request_id = ticket.request.request_id
        written: list[OutRecord] = []
        if (run := ticket.run) and run.own_steps:
            by = ticket.cancelled or Cancelled(by="answerbus", reason="the run has ended")
            change = transitions.stopped(run, by, self._inputs(ticket, now))
            told = (event for event in change.written if not event.kind.startswith("run_"))
            written += [records.run_event_record(event, self.partition) for event in told]
            written += [self._null(key) for key in _keys(request_id, run)]
            self._count(change)
            ticket.run = change.run  # what comes until this is committed finds no call open
        key = cancel_key(request_id, ticket.request.workflow_id)
        if self.cancels.pop(key, None):
            written.append(self._null(key))
        return written

    def cancel(
        self,
        asked: Cancel,
        tickets: Sequence[Ticket],
        until: datetime,
        open_requests: Container[str],
        now: datetime,
    ) -> list[OutRecord]:
        """End what is open of it, and remember it for what was published `until` then.

        Of a workflow one record says it all, however many requests it has.
        """
        written = self._forget_cancels(open_requests, now)
        of_workflow = asked.request_id is None or asked.scope == "workflow"
        named = {asked.request_id, *(ticket.request.request_id for ticket in tickets)}
        for name in {None} if of_workflow else sorted(name for name in named if name):
            record = RunCancelRecord(
                request_id=name,
                workflow_id=asked.workflow_id,
                by=asked.by,
                reason=asked.reason,
                at=until,
            )
            self.cancels.pop(runs_key(record), None)  # the newest stand last
            self.cancels[runs_key(record)] = record
            written.append(records.run_event_record(record, self.partition))
        for ticket in tickets:
            self.mark(ticket)
        return written

    def mark(self, ticket: Ticket) -> None:
        """A ticket whose request was cancelled ends, at once or when its call is home."""
        found = self._cancel_of(ticket)
        ticket.cancelled = Cancelled(by=found.by, reason=found.reason) if found else None
        if found:
            self.stopped.append(ticket)

    def stop(self, ticket: Ticket, cause: Cancelled) -> None:
        """End a ticket as one that was cancelled, by what its run came to."""
        if ticket.cancelled is None:
            ticket.cancelled = cause
            self.stopped.append(ticket)

    def _cancel_of(self, ticket: Ticket) -> RunCancelRecord | None:
        """That of the request itself, or that of its workflow if the request was there before."""
        request, published_at = ticket.request, ticket.origin.timestamp
        found = self.cancels.get(cancel_key(request.request_id, request.workflow_id))
        if found and published_at - found.at <= CANCELS_KEPT:
            return found
        found = self.cancels.get(cancel_key(None, request.workflow_id))
        return found if found and published_at <= found.at else None

    def take_stopped(self, most: int) -> list[Ticket]:
        """The tickets that are to end now, so many at once."""
        taken, self.stopped = self.stopped[:most], self.stopped[most:]
        return taken

    def _forget_cancels(self, open_requests: Container[str], now: datetime) -> list[OutRecord]:
        """Those whose requests have not come in time, and the oldest of too many.

        That of a request which has not ended yet stays: a successor must know of it.
        """
        forgotten: list[str] = []
        for key, found in self.cancels.items():
            is_old = now - found.at > CANCELS_KEPT
            if not is_old and len(self.cancels) - len(forgotten) < CANCELS_MAX:
                break  # the oldest stand first
            if found.request_id is None or found.request_id not in open_requests:
                forgotten.append(key)
        for key in forgotten:
            del self.cancels[key]
        return [self._null(key) for key in forgotten]

    def _apply(self, ticket: Ticket, change: Change | None) -> list[OutRecord]:
        if change is None:
            return []
        ticket.run = change.run
        self._count(change)
        self.watch(ticket)
        return [records.run_event_record(event, self.partition) for event in change.written]

    def _count(self, change: Change) -> None:
        for event in change.written:
            if isinstance(event, ToolEnded):  # a model may name any tool
                tool = event.tool if event.tool in change.run.tools else UNKNOWN_TOOL
                self.ended[tool, event.outcome.kind] += 1

    def _head(self, ticket: Ticket, run: Run) -> OutRecord:
        head = RunRecord(
            request=ticket.request,
            body_digest=ticket.body_digest,
            origin=ticket.origin,
            notes=ticket.notes,
            definition=run.definition,
        )
        return records.run_event_record(head, self.partition, ticket.incoming_trace)

    def _inputs(self, ticket: Ticket, now: datetime) -> RunInputs:
        return RunInputs(
            request=ticket.request,
            deadline=ticket.deadline,
            reply_topic=self.reply_topic,
            partition=self.partition,
            now=now,
            chance=self.chance,
            is_ending=ticket.cancelled is not None or ticket.deadline <= now,
            may_call=self.may_call,
        )

    def _null(self, key: str) -> OutRecord:
        return records.run_tombstone(key, self.partition)


def _run_of(ticket: Ticket) -> Run:
    if ticket.run is None:
        raise ValueError("a request that no agent works on has no run")
    return ticket.run


def _keys(request_id: str, run: Run) -> Iterator[str]:
    yield request_id
    for n, place in run.record_keys:
        yield step_key(request_id, n) if place is None else call_key(request_id, n, place)
