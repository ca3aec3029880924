"""The tool calls that await a person's approval or answer, over all runs; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from answerbus.control import (
    Approval,
    ApprovalRequested,
    ControlApplied,
    Input,
    InputRequested,
)
from answerbus.envelope import Undecodable
from answerbus.event import Event
from answerbus.limits import RUN_TTL_S_MAX
from answerbus.request_key import CallKey
from answerbus.step import ToolEnded
from services.operators.records.stored import RetryEnded, Stored
from services.operators.runs.tree import Awaited

# No run lasts longer, so that what was asked before is over; with room for clocks that differ.
APPROVAL_AGE_MAX = timedelta(seconds=RUN_TTL_S_MAX, hours=1)
_SIGNS = (b'"approval_requested"', b'"input_requested"', b'"tool_ended"', b'"control_applied"')


@dataclass(slots=True)
class OpenApprovals:
    """Takes the records of the steps topic, those of each partition in their order."""

    _asked: dict[CallKey, Awaited] = field(default_factory=dict)

    def take(self, event: Event | RetryEnded | Undecodable) -> None:
        """A call that ended, or was decided about, awaits nothing any more."""
        match event:
            case ApprovalRequested() | InputRequested():
                self._asked[CallKey.of(event)] = event
            case ToolEnded():
                self._asked.pop(CallKey.of(event), None)
            case ControlApplied(
                effect="approved" | "denied" | "answered",
                control=Approval(call_id=call_id) | Input(call_id=call_id),
            ):
                self._asked.pop(CallKey(event.workflow_id, call_id), None)
            case _:
                pass

    def named(self, call_id: str, workflow_id: str | None, now: datetime) -> Sequence[Awaited]:
        """The calls of that id that a person can decide now; workflows may share an id."""
        return [one for one in self.waiting(workflow_id, now) if one.call_id == call_id]

    def waiting(self, workflow_id: str | None, now: datetime) -> Sequence[Awaited]:
        """All calls of a workflow, or of all, that a person can decide now, the oldest first."""
        found = [
            requested
            for requested in self._asked.values()
            if requested.expires_at > now and workflow_id in (None, requested.workflow_id)
        ]
        return sorted(found, key=lambda one: (one.at, one.workflow_id, one.call_id))


def may_concern_approvals(stored: Stored) -> bool:
    """Whether a record is worth being decoded: cheap, and never wrongly False."""
    value = stored.value or b""
    return any(sign in value for sign in _SIGNS)
