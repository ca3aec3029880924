"""Decisions of people about runs and lanes: approvals, denials, cancellations, skips; pure."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from services.operators.records.event_parts import ControlPart
from services.operators.records.event_summary import SkippedSummary
from services.operators.records.run_summary import (
    ApprovalSummary,
    CancelSummary,
    ControlAppliedSummary,
    InputSummary,
)
from services.operators.records.summary import RecordSummary

ACTIONS_MAX = 10_000  # the newest are kept

ControlKind = Literal["approved", "denied", "answered", "cancelled", "skipped"]


@dataclass(slots=True)
class ControlAction:
    """`subject` is the call, request, workflow or record; times are in ms since 1970.

    `effect` is what a worker says that came of it, None while none has read it.
    """

    kind: ControlKind
    by: str
    reason: str
    at_ms: int
    subject: str
    workflow_id: str | None
    effect: str | None = None


class ControlActions:
    """Folded from topics in any order: a control, and what came of it, are one action."""

    def __init__(self) -> None:
        self._actions: OrderedDict[tuple[object, ...], ControlAction] = OrderedDict()

    def take(self, record: RecordSummary) -> None:
        match record.event:
            case (ApprovalSummary() | InputSummary() | CancelSummary()) as event:
                self._noted(event.workflow_id, event.control, record.at_ms)
            case ControlAppliedSummary() as event:
                action = self._noted(event.workflow_id, event.control, record.at_ms)
                if action is not None:
                    action.effect = event.effect
            case SkippedSummary() as event:
                place = record.place
                where = f"{place.topic.name}, partition {place.partition}, offset {event.offset}"
                action = ControlAction(
                    "skipped", event.by, event.reason, record.at_ms, where, None, "skipped"
                )
                self._actions.setdefault(("skipped", where), action)
            case _:
                pass
        if len(self._actions) > ACTIONS_MAX:
            self._actions.popitem(last=False)

    def newest(self) -> Sequence[ControlAction]:
        """Newest first."""
        return sorted(self._actions.values(), key=lambda action: -action.at_ms)

    def _noted(self, workflow_id: str, control: ControlPart, at_ms: int) -> ControlAction | None:
        kind = _kind(control)
        if kind is None:
            return None
        subject = control.call_id or control.request_id or workflow_id
        key = (kind, workflow_id, subject, control.by, control.at)
        new = ControlAction(kind, control.by, control.reason, at_ms, subject, workflow_id)
        action = self._actions.setdefault(key, new)
        action.at_ms = min(action.at_ms, at_ms)
        return action


def _kind(control: ControlPart) -> ControlKind | None:
    match control.kind, control.decision:
        case "approval", "approved":
            return "approved"
        case "approval", "denied":
            return "denied"
        case "input", _:
            return "answered"
        case "cancel", _:
            return "cancelled"
        case _:
            return None
