"""The members of run events and controls that lists need; pure."""

from services.operators.records.event_parts import (
    AgentPart,
    CallPart,
    ControlPart,
    Count,
    EventPart,
    Moment,
    Reason,
    Text,
    ToolOutcomePart,
)


class RunEventSummary(EventPart, frozen=True, gc=False):
    """An event of a run, or a person's control of it."""

    workflow_id: Text
    request_id: Text | None = None


class StepSummary(RunEventSummary, frozen=True, gc=False, tag="step"):
    n: Count = 0
    agent: AgentPart | None = None
    calls: tuple[CallPart, ...] = ()


class ToolEndedSummary(RunEventSummary, frozen=True, gc=False, tag="tool_ended"):
    call_id: Text = ""
    tool: Text = ""
    outcome: ToolOutcomePart = ToolOutcomePart()
    took_ms: Count | None = None


class ApprovalRequestedSummary(RunEventSummary, frozen=True, gc=False, tag="approval_requested"):
    """A tool call that awaits a person."""

    call_id: Text = ""
    tool: Text = ""
    delivery: Count = 1
    after_input: Count = 0


class InputRequestedSummary(RunEventSummary, frozen=True, gc=False, tag="input_requested"):
    """A question that awaits a person."""

    call_id: Text = ""
    number: Count = 1


class InputSummary(RunEventSummary, frozen=True, gc=False, tag="input"):
    """A person's answer to a question."""

    call_id: Text | None = None
    number: Count = 1
    by: Reason = ""
    at: Moment | None = None

    @property
    def control(self) -> ControlPart:
        return ControlPart(self.kind, self.call_id, self.request_id, "", self.by, "", self.at)


class ControlAppliedSummary(RunEventSummary, frozen=True, gc=False, tag="control_applied"):
    effect: Text = ""
    control: ControlPart = ControlPart()


class ApprovalSummary(RunEventSummary, frozen=True, gc=False, tag="approval"):
    """A person's decision about a tool call."""

    call_id: Text | None = None
    delivery: Count = 1
    after_input: Count = 0
    decision: Text = ""
    by: Reason = ""
    reason: Reason = ""
    at: Moment | None = None

    @property
    def control(self) -> ControlPart:
        about = (self.call_id, self.request_id, self.decision)
        return ControlPart(self.kind, *about, self.by, self.reason, self.at)


class CancelSummary(RunEventSummary, frozen=True, gc=False, tag="cancel"):
    """A cancellation, of a request or of all open ones of its workflow."""

    by: Reason = ""
    reason: Reason = ""
    at: Moment | None = None

    @property
    def control(self) -> ControlPart:
        return ControlPart(self.kind, None, self.request_id, "", self.by, self.reason, self.at)


AnyRunSummary = (
    StepSummary
    | ToolEndedSummary
    | ApprovalRequestedSummary
    | InputRequestedSummary
    | InputSummary
    | ControlAppliedSummary
    | ApprovalSummary
    | CancelSummary
)
