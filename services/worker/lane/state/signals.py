"""Signals: results of tools and controls of people, applied to the open runs of a lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from answerbus.call_id import request_of_call
from answerbus.call_outcome import Denied
from answerbus.control import Approval, Cancel, Control, ControlApplied, ControlEffect, Input
from answerbus.failure import Problem
from answerbus.limits import CANCELLED_AT_ONCE_MAX
from answerbus.partition import partition_of
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.reconcile import ToolReconciled
from answerbus.request_key import CallKey, RequestKey
from answerbus.tool_result import ToolProgress, ToolResult
from answerbus.topics import LEASES, TOOL_RESULTS, TOPIC_OF_KIND, Topic
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.tool_report import InvalidQuestion
from services.worker.core.shared_budget.books import BudgetRecord
from services.worker.lane.state import records
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.records import LaneWrite
from services.worker.ports.kafka import Outgoing, OutRecord

OVERDUE_RECORDS_MAX = 1_000  # in one write, and what one run adds to them
OVERDUE_BYTES_MAX = 2 * 1024 * 1024

ToolReport = ToolResult | ToolProgress | InvalidQuestion | ToolReconciled
Signal = ToolReport | Approval | Input | Cancel | BudgetRecord


@dataclass(frozen=True, slots=True)
class SignalRecord:
    """A record of a topic that speaks to runs; `signal` is None where it cannot be read."""

    topic: Topic
    offset: int
    place_id: str
    signal: Signal | None
    at: datetime | None = None  # when the broker took it


def apply_signals(
    lane_state: LaneState, signals: Sequence[SignalRecord], now: datetime
) -> LaneWrite:
    """Apply records in their order: what they change and the position behind them are one write."""
    written: list[Outgoing] = []
    for signal in signals:
        if isinstance(signal.signal, BudgetLeaseRecord | BudgetShareRecord):
            _receive(lane_state, signal, signal.signal, now)
            continue
        found = _apply(lane_state, signal, now)
        lane_state.counters.ignored_signals += not found
        written += found
    for signal in signals:
        lane_state.own_record.advance(signal.topic, signal.offset + 1)
    return lane_state.writing(*written, lane_state.own_record.encoded(now))


def _receive(
    lane_state: LaneState, read: SignalRecord, received: BudgetRecord, now: datetime
) -> None:
    """Take records of other lanes on shared budgets, from the topic that only workers write."""
    if read.topic is LEASES:
        lane_state.budgets.receive(received, now)


def overdue(lane_state: LaneState, until: datetime, now: datetime) -> LaneWrite | None:
    """The ends of calls whose time was over by `until`; where they are many, of the first ones."""
    written: list[OutRecord] = []
    size = 0
    for lane_request, found in lane_state.runs.on_timeout(until, now):
        written += found
        size += sum(record.size_bytes for record in found)
        lane_state.signal_if_answered(lane_request)
        if len(written) >= OVERDUE_RECORDS_MAX or size >= OVERDUE_BYTES_MAX:
            break  # the others are due when the lane looks again, which is at once
    return lane_state.writing(*written) if written else None


def _apply(lane_state: LaneState, read: SignalRecord, now: datetime) -> Sequence[Outgoing]:
    match read.signal:
        case ToolResult() | ToolProgress() | InvalidQuestion() | ToolReconciled() as signal:
            return _apply_to_call(lane_state, signal, now) if read.topic is TOOL_RESULTS else []
        case Approval() | Input() | Cancel() as signal:
            if read.topic is TOOL_RESULTS:
                return []
            return _apply_control(lane_state, read, signal, now)
        case None | BudgetLeaseRecord() | BudgetShareRecord():
            return []
        case signal:
            assert_never(signal)


def _apply_to_call(lane_state: LaneState, signal: ToolReport, now: datetime) -> Sequence[Outgoing]:
    lane_request = _request_with_call(lane_state, CallKey.of(signal))
    if lane_request is None or lane_request.key in lane_state.oversized.causes:
        return []  # a run that ends since a record was too large takes no other that may be
    written = lane_state.runs.apply_signal(lane_request, signal, now)
    if written and not (isinstance(signal, ToolProgress) and signal.asks is None):
        lane_state.signal_if_answered(lane_request)
    return written


def _apply_control(
    lane_state: LaneState, read: SignalRecord, control: Control, now: datetime
) -> Sequence[Outgoing]:
    is_misplaced = read.topic is not TOPIC_OF_KIND[control.kind]
    lane_state.counters.ignored_signals += is_misplaced
    done = _NO_EFFECT if is_misplaced else _take_effect(lane_state, control, read.at or now, now)
    applied = ControlApplied(
        event_id=f"{read.place_id}.applied",
        workflow_id=control.workflow_id,
        control=control,
        effect=done.effect,
        requests=tuple(done.requests[:CANCELLED_AT_ONCE_MAX]),
        is_misplaced=is_misplaced,
        problems=done.problems,
        at=now,
    )
    record = records.run_event_record(applied, lane_state.partition, about=applied.event_id)
    return [*done.written, record] if lane_state.oversized.may_fit(record) else done.written


@dataclass(frozen=True, slots=True)
class _Applied:
    """The effect of a control, and the records to write for it."""

    effect: ControlEffect
    requests: Sequence[str] = ()
    written: Sequence[Outgoing] = ()
    problems: tuple[Problem, ...] = ()


_NO_EFFECT = _Applied("nothing")


def _take_effect(
    lane_state: LaneState, control: Control, published_at: datetime, now: datetime
) -> _Applied:
    match control:
        case Approval() | Input():
            return _by_person(lane_state, control, now)
        case Cancel():
            return _cancelled(lane_state, control, published_at, now)
        case _:
            assert_never(control)


def _by_person(lane_state: LaneState, control: Approval | Input, now: datetime) -> _Applied:
    lane_request = _request_with_call(lane_state, CallKey.of(control))
    if lane_request is None:
        return _NO_EFFECT
    written, problems = lane_state.runs.apply_person(lane_request, control, now)
    if problems:
        return _Applied("invalid", problems=problems)
    if not written:
        return _NO_EFFECT
    lane_state.signal_if_answered(lane_request)
    return _Applied(_effect_of(control, lane_request), [lane_request.request.request_id], written)


def _effect_of(control: Approval | Input, lane_request: LaneRequest) -> ControlEffect:
    """Changed arguments are approved by a person, and may be denied by the policy."""
    if isinstance(control, Input):
        return "answered"
    call = lane_request.run.call_of_last_step(control.call_id) if lane_request.run else None
    return "denied" if call and isinstance(call.outcome, Denied) else control.decision


def _cancelled(lane_state: LaneState, control: Cancel, until: datetime, now: datetime) -> _Applied:
    """What is known to be closed cannot be cancelled; what is not known may come."""
    if not _may_be_open(lane_state, control):
        return _NO_EFFECT
    lane_requests = _cancellable(lane_state, control, until)
    queue, found = lane_state.queue, lane_state.cancellations
    written = found.add(control, lane_requests, until, queue.requests, now)
    for lane_request in lane_requests:
        lane_state.cancel_if_asked(lane_request)
    names = [lane_request.request.request_id for lane_request in lane_requests]
    return _Applied("cancelled" if lane_requests else "remembered", names, written)


def _may_be_open(lane_state: LaneState, control: Cancel) -> bool:
    """Whether what is to be cancelled is open here, or may be read here later."""
    if partition_of(control.workflow_id, lane_state.partitions) != lane_state.partition:
        return False  # another lane reads its requests
    if control.scope == "workflow":
        return True
    if control.request_id is None:
        return False
    asked = RequestKey(control.workflow_id, control.request_id)
    if lane_state.ledger.known(asked):
        return False
    lane_request = lane_state.queue.requests.get(asked)
    return lane_request is None or lane_request.cancelled is None


def _cancellable(lane_state: LaneState, control: Cancel, until: datetime) -> list[LaneRequest]:
    """With all that they have asked, whenever that was.

    Without requests whose outcome is being committed: nothing would end that cancel's record.
    """
    lane_requests, children = lane_state.queue.requests, lane_state.queue.children
    if control.scope == "request":
        one = lane_requests.get(RequestKey(control.workflow_id, control.request_id or ""))
        found = [one] if one else []
    else:
        found = [
            one
            for one in lane_requests.values()
            if one.request.workflow_id == control.workflow_id and one.origin.timestamp <= until
        ]
    below = (child for one in found for child in children.below(one))
    return [
        lane_request
        for lane_request in dict.fromkeys((*found, *below))
        if lane_request.cancelled is None and not lane_state.ledger.known(lane_request.key)
    ]


def _request_with_call(lane_state: LaneState, call: CallKey) -> LaneRequest | None:
    """The open request with a run that made the call."""
    key = RequestKey(call.workflow_id, request_of_call(call.call_id))
    lane_request = lane_state.queue.requests.get(key)
    return lane_request if lane_request and lane_request.run else None
