"""The events of runs, and the wire form of each: id and key."""

from datetime import datetime
from typing import assert_never

from answerbus.control import (
    Approval,
    ApprovalRequested,
    Cancel,
    ControlApplied,
    Input,
    InputRequested,
)
from answerbus.private.runs import (
    RunCallRecord,
    RunCancelRecord,
    RunChildRecord,
    RunRecord,
    RunsRecord,
    RunStepRecord,
    runs_key,
)
from answerbus.resumed_run import RunResumed
from answerbus.step import Step, ToolEnded
from answerbus.wire import format_timestamp

RunEvent = (
    Step
    | ToolEnded
    | ApprovalRequested
    | InputRequested
    | Approval
    | Input
    | Cancel
    | ControlApplied
    | RunResumed
    | RunsRecord
)


def event_id(event: RunEvent) -> str:
    """Derived from what it is about, so that a repeated event carries the same."""
    match event:
        case Step() | ToolEnded() | ApprovalRequested() | InputRequested() | ControlApplied():
            return event.event_id
        case Input():
            return f"{event.call_id}.input.{format_timestamp(event.at)}"
        case Approval():
            return f"{event.call_id}.{event.decision}.{format_timestamp(event.at)}"
        case Cancel():
            about = event.request_id or event.workflow_id
            return f"{about}.cancel.{format_timestamp(event.at)}"
        case RunResumed():
            return f"{event.request_id}.resumed"
        case RunRecord() | RunChildRecord() | RunStepRecord() | RunCallRecord() | RunCancelRecord():
            return runs_key(event)
        case _:
            assert_never(event)


def key(event: RunEvent) -> str:
    """The record key: what people read is found by its workflow."""
    match event:
        case Step() | ToolEnded() | ApprovalRequested() | InputRequested() | ControlApplied():
            return event.workflow_id
        case Approval() | Input() | Cancel() | RunResumed():
            return event.workflow_id
        case RunRecord() | RunChildRecord() | RunStepRecord() | RunCallRecord() | RunCancelRecord():
            return runs_key(event)
        case _:
            assert_never(event)


def workflow_of(event: RunEvent) -> str | None:
    """The workflow, if the event knows it."""
    match event:
        case RunRecord() | RunChildRecord():
            return event.request.workflow_id
        case RunStepRecord() | RunCallRecord():
            return None
        case _:
            return event.workflow_id


def request_of(event: RunEvent) -> str | None:
    """The request, if the event is about one."""
    match event:
        case RunRecord() | RunChildRecord():
            return event.request.request_id
        case Approval() | Input() | ControlApplied():
            return None
        case _:
            return event.request_id


def happened_at(event: RunEvent) -> datetime | None:
    """When it happened, if the event itself says so."""
    match event:
        case RunRecord() | RunChildRecord() | RunStepRecord() | RunCallRecord():
            return None
        case _:
            return event.at
