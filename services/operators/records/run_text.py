"""One line about an event of a run, for people; pure."""

from typing import assert_never

from answerbus.control import (
    Approval,
    ApprovalRequested,
    Cancel,
    Control,
    ControlApplied,
    Input,
    InputRequested,
)
from answerbus.private.runs import (
    RunCallRecord,
    RunCancelRecord,
    RunChildRecord,
    RunRecord,
    RunStepRecord,
)
from answerbus.resumed_run import RunResumed
from answerbus.run_event import RunEvent
from answerbus.step import Step, ToolEnded
from services.text.escaping import plain_line


def run_text(event: RunEvent) -> str:
    """The action and its author; no arguments, values or texts of models."""
    match event:
        case Step():
            tools = ", ".join(call.tool for call in event.calls)
            return plain_line(f"step {event.n} calls {tools}")
        case ToolEnded():
            return plain_line(f"the call {event.call_id} ended: {event.outcome.kind}")
        case ApprovalRequested() | InputRequested():
            return plain_line(_asked_text(event))
        case Approval() | Input() | Cancel():
            return plain_line(_control_text(event))
        case RunResumed():
            return plain_line(f"{event.request_id} goes on from earlier steps, by {event.by}")
        case ControlApplied():
            return plain_line(f"{event.control.kind} of {event.control.by}: {event.effect}")
        case RunRecord():
            return plain_line(f"a run of {event.definition.name} v{event.definition.version}")
        case RunChildRecord() | RunStepRecord() | RunCallRecord() | RunCancelRecord():
            return ""
        case _:
            assert_never(event)


def _asked_text(event: ApprovalRequested | InputRequested) -> str:
    if isinstance(event, InputRequested):
        return f"the call {event.call_id} asks a person"
    again = f" for delivery {event.delivery}" if event.delivery > 1 else ""
    return f"the call {event.call_id} of {event.tool} awaits approval{again}"


def _control_text(event: Control) -> str:
    match event:
        case Approval():
            how = event.decision if event.args is None else f"changed and {event.decision}"
            return f"the call {event.call_id} is {how} by {event.by}: {event.reason}"
        case Input():
            return f"the question {event.call_id} is answered by {event.by}"
        case Cancel():
            what = "the workflow" if event.scope == "workflow" else f"{event.request_id}"
            return f"{what} is cancelled by {event.by}: {event.reason}"
        case _:
            assert_never(event)
