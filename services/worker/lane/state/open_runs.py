"""The open runs of a lane: what happens to them, and the records of that."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from answerbus.agent import Parent
from answerbus.budget import AccountState, Usage
from answerbus.cause import Cancelled
from answerbus.continued_call import ToolContinue
from answerbus.control import Approval, Input
from answerbus.failure import Problem
from answerbus.outcome import Result
from answerbus.private.runs import (
    RunChildRecord,
    RunRecord,
    call_key,
    run_key,
    step_key,
)
from answerbus.reconcile import ToolReconcile
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.step import ToolEnded
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.trace import Trace
from services.worker.core.budget.account import Account
from services.worker.core.budget.allowance import minimum_after
from services.worker.core.budget.ledger import Ledger
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision
from services.worker.core.request.lane_request import LaneRequest, request_from_child
from services.worker.core.run import transitions
from services.worker.core.run.call_changes import Change, Written
from services.worker.core.run.composition import ComputedStep
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import OWN_TOOLS, Run
from services.worker.core.run.step_record import selected
from services.worker.core.run.tool_access import ToolAccess
from services.worker.core.run.tool_outcome import named_cost
from services.worker.core.run.transitions import RunSignal
from services.worker.core.schema.resolved import Accepted, AcceptedStep
from services.worker.lane.state import records
from services.worker.lane.state.oversized import Oversized
from services.worker.lane.state.queue import Queue
from services.worker.lane.state.timed_requests import TimedRequests
from services.worker.ports.kafka import Outgoing, OutRecord
from services.worker.ports.observer import Observer

UNKNOWN_TOOL = "unknown"


@dataclass(slots=True, kw_only=True)
class OpenRuns:
    """`problems_of` says why a child cannot be asked.

    `is_on`: the topics of runs can be written, and may hold what is private to a child.
    """

    partition: int
    queue: Queue
    ledger: Ledger
    observer: Observer
    tools: ToolAccess
    problems_of: Callable[[Request], tuple[Problem, ...]]
    oversized: Oversized = field(default_factory=Oversized)
    is_on: bool = True
    _due: TimedRequests = field(default_factory=TimedRequests)  # by when the time of a call is over

    def take_step(
        self, call: Call, step: AcceptedStep, account: AccountState, now: datetime, left: int
    ) -> list[OutRecord]:
        """An answer was a step: it, and the calls that it makes; `left` are attempts."""
        lane_request, run = call.lane_request, _run_of(call.lane_request)
        inputs = replace(
            self._inputs(lane_request, now),
            attempts_left=left,
            model=call.plan.profile.model_id,
            frame=call.prompt.frame,
            children=call.children,
        )
        # What its children will say is not counted yet: the whole prompt stands for that, too.
        whole = replace(call.prompt, counted_max=None)
        minimum = minimum_after(account.limit, whole.tokens_max, call.plan.worst_cost(whole))
        change = transitions.take_step(
            run,
            step,
            call.spend.attempt,
            call.usage,
            lane_request.progress.used,
            account,
            inputs,
            minimum,
        )
        head = [] if run.own_steps else [self._head(lane_request, run)]
        return [*head, *self._apply(lane_request, change)]

    def take_computed(
        self,
        lane_request: LaneRequest,
        computed: ComputedStep,
        account: AccountState,
        now: datetime,
    ) -> list[OutRecord]:
        """A step that no model was asked for; it has the place of an attempt of its number."""
        run = _run_of(lane_request)
        inputs = replace(self._inputs(lane_request, now), children=computed.children)
        number, step, free = len(run.steps) + 1, computed.step, Usage()
        change = transitions.take_step(
            run, step, number, free, free, account, inputs, computed.reserved_minimum
        )
        return [self._head(lane_request, run), *self._apply(lane_request, change)]

    def selected(
        self, call: Call, decision: Decision, account: Account, now: datetime
    ) -> list[OutRecord]:
        """The answer of a run was chosen among others: its last step says which, and why."""
        chosen = call.checked.chosen if isinstance(call.checked, Accepted) else None
        if chosen is None or not isinstance(decision, Result):
            return []
        run, inputs = _run_of(call.lane_request), self._inputs(call.lane_request, now)
        run, event = selected(run, call.spend.attempt, call.usage, chosen, account.state, inputs)
        call.lane_request.change_run(run)
        return [records.run_event_record(event, self.partition, about=call.lane_request.key)]

    def apply_signal(
        self, lane_request: LaneRequest, signal: RunSignal, now: datetime
    ) -> Sequence[Outgoing]:
        """Gives nothing where the signal changes nothing."""
        run, inputs = _run_of(lane_request), self._inputs(lane_request, now)
        if named_cost(signal) is None:
            return self._apply(lane_request, transitions.on_signal(run, signal, inputs))
        left = self.ledger.account(lane_request.request, now).micro_usd_left
        change = transitions.on_signal(run, signal, replace(inputs, micro_usd_left=left))
        self._charge(lane_request, change, now)
        return self._apply(lane_request, change)

    def apply_person(
        self, lane_request: LaneRequest, control: Approval | Input, now: datetime
    ) -> tuple[Sequence[Outgoing], tuple[Problem, ...]]:
        """A person decides or answers; what is wrong with that, if it is why nothing changes."""
        run, inputs = _run_of(lane_request), self._inputs(lane_request, now)
        spent = self.ledger.account(lane_request.request, now).spent
        found = transitions.on_person(run, control, replace(inputs, spent=spent))
        if isinstance(found, tuple):
            return (), found
        return self._apply(lane_request, found), ()

    def _charge(self, lane_request: LaneRequest, change: Change | None, now: datetime) -> None:
        """Charge the account for what a tool has cost."""
        written = change.written if change else ()
        if cost := sum(one.micro_usd or 0 for one in written if isinstance(one, ToolEnded)):
            self.ledger.charge_tool(lane_request.account_id, cost, now)

    def on_timeout(
        self, until: datetime, now: datetime
    ) -> Iterator[tuple[LaneRequest, list[OutRecord]]]:
        """Each run with calls whose time was over by `until`, and how these end."""
        for lane_request in self._due.due(until):
            run = _run_of(lane_request)
            change = transitions.on_timeout(run, self._inputs(lane_request, now), until)
            yield lane_request, self._apply(lane_request, change)

    def next_moment(self) -> datetime | None:
        """When `on_timeout` may have something to do."""
        return self._due.next_moment()

    def watch(self, lane_request: LaneRequest) -> None:
        """Look at the run again when the time of its first call is over."""
        due_at = lane_request.run.due_at if lane_request.run else None
        if due_at:
            self._due.add(lane_request, due_at)
        else:
            self._due.release(lane_request)

    def end(self, lane_request: LaneRequest, now: datetime) -> list[OutRecord]:
        """The request has its outcome: calls that are open end, and private records are ended."""
        request_id = lane_request.request.request_id
        written: list[OutRecord] = []
        if (run := lane_request.run) and run.own_steps:
            by = lane_request.cancelled or Cancelled(by="answerbus", reason="the run has ended")
            change = transitions.stopped(run, by, self._inputs(lane_request, now))
            events = (event for event in change.written if not event.kind.startswith("run_"))
            written += self._all_written(lane_request, events)
            written += [
                records.run_tombstone(key, self.partition) for key in _keys(lane_request, run)
            ]
            self._report_ends(lane_request, change)
            # What arrives until this is committed finds no call open.
            lane_request.change_run(change.run)
            self.watch(lane_request)
        elif lane_request.request.parent and self.is_on:
            written.append(
                records.run_tombstone(run_key(request_id, lane_request.scope), self.partition)
            )
        return written

    def _apply(self, lane_request: LaneRequest, change: Change | None) -> list[OutRecord]:
        if change is None:
            return []
        lane_request.change_run(change.run)
        self._report_ends(lane_request, change)
        self.watch(lane_request)
        return self._all_written(lane_request, change.written)

    def _all_written(self, lane_request: LaneRequest, events: Iterable[Written]) -> list[OutRecord]:
        """Without what is too large once that ends the run: no call and no child keeps it open."""
        written = [self._written(lane_request, event) for event in events]
        is_ending = lane_request.key in self.oversized.causes
        return [*filter(self.oversized.may_fit, written)] if is_ending else written

    def _written(self, lane_request: LaneRequest, event: Written) -> OutRecord:
        trace = _trace_of(lane_request, event)
        record = records.run_event_record(event, self.partition, trace, lane_request.key)
        if isinstance(event, RunChildRecord):
            self.queue.put(request_from_child(event, record.size_bytes, record.headers))
        return record

    def _report_ends(self, lane_request: LaneRequest, change: Change) -> None:
        for event in change.written:
            if isinstance(event, ToolEnded):  # a model may name any tool
                is_known = event.tool in change.run.tools or event.tool in OWN_TOOLS
                tool = event.tool if is_known else UNKNOWN_TOOL
                self.observer.call_ended(lane_request, tool, event)

    def _head(self, lane_request: LaneRequest, run: Run) -> OutRecord:
        head = RunRecord(
            workflow_id=lane_request.scope,
            request=lane_request.request,
            body_digest=lane_request.body_digest,
            origin=lane_request.origin,
            notes=lane_request.notes,
            definition=run.definition,
        )
        trace = lane_request.incoming_trace
        return records.run_event_record(head, self.partition, trace, lane_request.key)

    def _inputs(self, lane_request: LaneRequest, now: datetime) -> RunInputs:
        return RunInputs(
            request=lane_request.request,
            deadline=lane_request.deadline,
            partition=self.partition,
            now=now,
            tools=self.tools,
            problems_of=self.problems_of,
            is_taken=lambda name: self._is_taken(lane_request.key._replace(request_id=name)),
            is_ending=lane_request.cancelled is not None or lane_request.deadline <= now,
            scope=lane_request.scope,
            origin=lane_request.origin,
        )

    def _is_taken(self, key: RequestKey) -> bool:
        return key in self.queue.requests or self.ledger.known(key) is not None


def _run_of(lane_request: LaneRequest) -> Run:
    if lane_request.run is None:
        raise ValueError("a request that no agent works on has no run")
    return lane_request.run


def _keys(lane_request: LaneRequest, run: Run) -> Iterator[str]:
    request_id, scope = lane_request.request.request_id, lane_request.scope
    yield run_key(request_id, scope)
    for n, place in run.record_keys:
        if place is None:
            yield step_key(request_id, n, scope)
        else:
            yield call_key(request_id, n, place, scope)


def _trace_of(lane_request: LaneRequest, event: Written) -> Trace | None:
    """What a tool server is sent, and a child, belong to the span of their call."""
    match event:
        case ToolCallRecord() | ToolContinue() | ToolCancel() | ToolReconcile():
            return lane_request.trace_of_call(event.call_id)
        case RunChildRecord(request=Request(parent=Parent(call_id=call_id))):
            return lane_request.trace_of_call(call_id)
        case _:
            return None
