"""The open runs of a lane: their records, expired deadlines, and cancellations."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from answerbus.budget import AccountState, Usage
from answerbus.cause import Cancelled
from answerbus.control import Approval
from answerbus.failure import Problem
from answerbus.outcome import Result
from answerbus.private.runs import (
    RunChildRecord,
    RunRecord,
    call_key,
    cancel_key,
    run_key,
    step_key,
)
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.step import ToolEnded
from answerbus.tool_result import ToolProgress, ToolResult
from services.worker.core.budget.allowance import floor_after
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision
from services.worker.core.request.ticket import Ticket, ticket_of_child
from services.worker.core.run import transitions
from services.worker.core.run.children import ChildOutcome
from services.worker.core.run.composition import ComputedStep
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import CHILD_TOOLS, Run
from services.worker.core.run.step_record import selected
from services.worker.core.run.transitions import Change, Written
from services.worker.core.schema.resolved import Accepted, AcceptedStep
from services.worker.lane.state import records
from services.worker.lane.state.cancellations import Cancellations
from services.worker.lane.state.held_tickets import HeldTickets
from services.worker.ports import OutRecord

UNKNOWN_TOOL = "unknown"


def _no_chance(length: int) -> bytes:
    return bytes(length)


def _always(_: str, __: datetime) -> bool:
    return True


def _nothing_wrong(_: Request) -> tuple[Problem, ...]:
    return ()


def _nothing_taken(_: RequestKey) -> bool:
    return False


def _untold(_: str, __: ToolEnded) -> None:
    pass


def _no_place(_: Ticket) -> None:
    raise RuntimeError("a lane has a queue for children")


@dataclass(slots=True, kw_only=True)
class OpenRuns(Cancellations):
    """See the module. A lane without agents has one that stays empty.

    `reply_topic` is where tool servers answer, `chance` makes the tokens of calls, `may_call` says
    whether calls of a toolset can be written now. `put` queues a child, `problems_of` says why a
    request cannot be asked, `is_taken` which ids are known. `on_ended` is told of each
    tool call that ends, by a name that is bounded.
    """

    reply_topic: str = "answerbus.tool-results.v1"
    chance: Callable[[int], bytes] = _no_chance
    may_call: Callable[[str, datetime], bool] = _always
    on_ended: Callable[[str, ToolEnded], None] = _untold
    put: Callable[[Ticket], None] = _no_place
    problems_of: Callable[[Request], tuple[Problem, ...]] = _nothing_wrong
    is_taken: Callable[[RequestKey], bool] = _nothing_taken
    _due: HeldTickets = field(default_factory=HeldTickets)  # by when the time of a call is over

    def take_step(
        self, call: Call, step: AcceptedStep, account: AccountState, now: datetime, left: int
    ) -> list[OutRecord]:
        """An answer was a step: it, and the calls that it makes; `left` are attempts."""
        ticket, run = call.ticket, _run_of(call.ticket)
        inputs = replace(
            self._inputs(ticket, now),
            attempts_left=left,
            model=call.plan.profile.model_id,
            frame=call.prompt.frame,
        )
        # What its children will say is not counted yet: the whole prompt stands for that, too.
        whole = replace(call.prompt, counted_max=None)
        floor = floor_after(account.limit, whole.tokens_max, call.plan.worst_cost(whole))
        change = transitions.take_step(
            run, step, call.spend.attempt, call.usage, ticket.used, account, inputs, floor
        )
        head = [] if run.own_steps else [self._head(ticket, run)]
        return [*head, *self._apply(ticket, change)]

    def take_computed(
        self, ticket: Ticket, computed: ComputedStep, account: AccountState, now: datetime
    ) -> list[OutRecord]:
        """A step that no model was asked for; it stands where an attempt of its number would."""
        run, inputs = _run_of(ticket), self._inputs(ticket, now)
        number, step, floor, free = len(run.steps) + 1, computed.step, computed.floor, Usage()
        change = transitions.take_step(run, step, number, free, free, account, inputs, floor)
        return [self._head(ticket, run), *self._apply(ticket, change)]

    def selected(
        self, call: Call, decision: Decision, account: AccountState, now: datetime
    ) -> list[OutRecord]:
        """The answer of a run was chosen among others: its last step says which, and why."""
        chosen = call.checked.chosen if isinstance(call.checked, Accepted) else None
        if chosen is None or not isinstance(decision, Result):
            return []
        run, inputs = _run_of(call.ticket), self._inputs(call.ticket, now)
        run, event = selected(run, call.spend.attempt, call.usage, chosen, account, inputs)
        call.ticket.run = run
        return [records.run_event_record(event, self.partition)]

    def result_came(self, ticket: Ticket, result: ToolResult, now: datetime) -> list[OutRecord]:
        """A tool server has ended a call; nothing where it may not."""
        run = _run_of(ticket)
        return self._apply(ticket, transitions.result_came(run, result, self._inputs(ticket, now)))

    def child_ended(self, ticket: Ticket, child: ChildOutcome, now: datetime) -> list[OutRecord]:
        """A child of the run has had its outcome, in the same transaction."""
        run = _run_of(ticket)
        return self._apply(ticket, transitions.child_ended(run, child, self._inputs(ticket, now)))

    def progress_came(
        self, ticket: Ticket, progress: ToolProgress, now: datetime
    ) -> list[OutRecord]:
        """A tool server is at work on a call; nothing where it may not be."""
        run = _run_of(ticket)
        return self._apply(
            ticket, transitions.progress_came(run, progress, self._inputs(ticket, now))
        )

    def approval_came(self, ticket: Ticket, approval: Approval, now: datetime) -> list[OutRecord]:
        """A person has decided about a call; nothing where it was not asked."""
        run, inputs = _run_of(ticket), self._inputs(ticket, now)
        return self._apply(ticket, transitions.approval_came(run, approval, inputs))

    def time_passed(
        self, until: datetime, now: datetime
    ) -> Iterator[tuple[Ticket, list[OutRecord]]]:
        """Each run with calls whose time was over by `until`, and how these end."""
        for ticket in self._due.due(until):
            run = _run_of(ticket)
            change = transitions.time_passed(run, self._inputs(ticket, now), until)
            yield ticket, self._apply(ticket, change)

    def next_moment(self) -> datetime | None:
        """When `time_passed` may have something to do."""
        return self._due.next_moment()

    def watch(self, ticket: Ticket) -> None:
        """Look at the run again when the time of its first call is over."""
        due_at = ticket.run.due_at if ticket.run else None
        if due_at:
            self._due.add(ticket, due_at)
        else:
            self._due.release(ticket)

    def end(self, ticket: Ticket, now: datetime) -> list[OutRecord]:
        """The request has its outcome: calls that are open end, and private records are ended."""
        request_id = ticket.request.request_id
        written: list[OutRecord] = []
        if (run := ticket.run) and run.own_steps:
            by = ticket.cancelled or Cancelled(by="answerbus", reason="the run has ended")
            change = transitions.stopped(run, by, self._inputs(ticket, now))
            events = (event for event in change.written if not event.kind.startswith("run_"))
            written += [records.run_event_record(event, self.partition) for event in events]
            written += [self._null(key) for key in _keys(ticket, run)]
            self._report_ends(change)
            ticket.run = change.run  # what comes until this is committed finds no call open
            self.watch(ticket)
        elif ticket.request.parent:
            written.append(self._null(run_key(request_id, ticket.scope)))
        key = cancel_key(request_id, ticket.request.workflow_id)
        if self.cancels.pop(key, None):
            written.append(self._null(key))
        return written

    def _apply(self, ticket: Ticket, change: Change | None) -> list[OutRecord]:
        if change is None:
            return []
        ticket.run = change.run
        self._report_ends(change)
        self.watch(ticket)
        return [self._written(ticket, event) for event in change.written]

    def _written(self, ticket: Ticket, event: Written) -> OutRecord:
        if not isinstance(event, RunChildRecord):
            return records.run_event_record(event, self.partition)
        record = records.run_event_record(event, self.partition, ticket.trace)
        self.put(ticket_of_child(event, record.size_bytes, record.headers))
        return record

    def _report_ends(self, change: Change) -> None:
        for event in change.written:
            if isinstance(event, ToolEnded):  # a model may name any tool
                is_known = event.tool in change.run.tools or event.tool in CHILD_TOOLS
                tool = event.tool if is_known else UNKNOWN_TOOL
                self.on_ended(tool, event)

    def _head(self, ticket: Ticket, run: Run) -> OutRecord:
        head = RunRecord(
            workflow_id=ticket.scope,
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
            origin=ticket.origin,
            problems_of=self.problems_of,
            is_taken=lambda name: self.is_taken(ticket.key._replace(request_id=name)),
            scope=ticket.scope,
        )


def _run_of(ticket: Ticket) -> Run:
    if ticket.run is None:
        raise ValueError("a request that no agent works on has no run")
    return ticket.run


def _keys(ticket: Ticket, run: Run) -> Iterator[str]:
    request_id, scope = ticket.request.request_id, ticket.scope
    yield run_key(request_id, scope)
    for n, place in run.record_keys:
        if place is None:
            yield step_key(request_id, n, scope)
        else:
            yield call_key(request_id, n, place, scope)
