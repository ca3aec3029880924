"""The tool calls that await a person's approval, over all runs; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from answerbus.control import Approval, ApprovalRequested, ControlApplied
from answerbus.envelope import Undecodable
from answerbus.event import Event
from answerbus.limits import RUN_TTL_S_MAX
from answerbus.step import ToolEnded
from services.operators.records.stored import RetryEnded, Stored

# No run lasts longer, so that what was asked before is over; with room for clocks that differ.
APPROVAL_AGE_MAX = timedelta(seconds=RUN_TTL_S_MAX, hours=1)
_SIGNS = (b'"approval_requested"', b'"tool_ended"', b'"control_applied"')


@dataclass(slots=True)
class OpenApprovals:
    """Takes the records of the steps topic, those of each partition in their order."""

    _asked: dict[str, ApprovalRequested] = field(default_factory=dict)

    def take(self, event: Event | RetryEnded | Undecodable) -> None:
        """A call that ended, or was decided about, awaits nothing any more."""
        match event:
            case ApprovalRequested():
                self._asked[event.call_id] = event
            case ToolEnded():
                self._asked.pop(event.call_id, None)
            case ControlApplied(effect="approved" | "denied", control=Approval(call_id=call_id)):
                self._asked.pop(call_id, None)
            case _:
                pass

    def get(self, call_id: str, now: datetime) -> ApprovalRequested | None:
        """What is asked about a call, unless its time is over."""
        requested = self._asked.get(call_id)
        return requested if requested is not None and requested.expires_at > now else None

    def waiting(self, now: datetime) -> Sequence[ApprovalRequested]:
        """All that a person can decide now, the oldest first."""
        found = (requested for requested in self._asked.values() if requested.expires_at > now)
        return sorted(found, key=lambda requested: (requested.at, requested.call_id))


def may_concern_approvals(stored: Stored) -> bool:
    """Whether a record is worth being decoded: cheap, and never wrongly False."""
    value = stored.value or b""
    return any(sign in value for sign in _SIGNS)
