"""The runs that are open, and the calls of them that await a person; pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.operators.records.event_parts import AgentPart
from services.operators.records.event_summary import (
    AnswerSummary,
    DeadLetterSummary,
    RequestSummary,
)
from services.operators.records.run_summary import (
    ApprovalRequestedSummary,
    ControlAppliedSummary,
    StepSummary,
    ToolEndedSummary,
)
from services.operators.records.stored import Place
from services.operators.records.summary import RecordSummary
from services.operators.runs.open_approvals import APPROVAL_AGE_MAX

CLOSED_KEPT = 200_000  # ids of runs that ended, since topics are not read in step
_AGE_MS_MAX = int(APPROVAL_AGE_MAX.total_seconds() * 1000)
_CALL = ".call."


@dataclass(slots=True)
class OpenRun:
    """A run that has had no outcome; `awaiting` says where its approvals were asked for."""

    request_id: str
    workflow_id: str
    began_ms: int
    last_ms: int
    agent: str = ""
    step: int = 0
    open_calls: set[str] = field(default_factory=set)
    awaiting: dict[str, Place] = field(default_factory=dict)


class OpenRuns:
    """Folded from summaries, of topics in any order; what one partition says is in its order."""

    def __init__(self) -> None:
        self._open: dict[str, OpenRun] = {}
        self._closed: dict[bytes, None] = {}

    def take(self, record: RecordSummary) -> None:
        """Learn from one record."""
        match record.event:
            case RequestSummary(agent=AgentPart() as agent) as event:
                self._note(event.request_id, event.workflow_id, record.at_ms, agent)
            case StepSummary(request_id=str(request_id)) as event:
                run = self._note(request_id, event.workflow_id, record.at_ms, event.agent)
                if run is not None:
                    run.step = max(run.step, event.n)
                    run.open_calls |= {
                        call.call_id for call in event.calls if call.state != "ended"
                    }
            case ApprovalRequestedSummary(request_id=str(request_id)) as event:
                run = self._note(request_id, event.workflow_id, record.at_ms, None)
                if run is not None:
                    run.awaiting[event.call_id] = record.place
            case ToolEndedSummary(request_id=str(request_id)) as event:
                self._decided(request_id, event.call_id, record.at_ms, ended=True)
            case ControlAppliedSummary(effect="approved" | "denied") as event:
                call_id = event.control.call_id or ""
                self._decided(call_id.rpartition(_CALL)[0], call_id, record.at_ms, ended=False)
            case (AnswerSummary() | DeadLetterSummary()) as event:
                self._end(event)
            case _:
                pass

    def runs(self, now_ms: int) -> Sequence[OpenRun]:
        """Those that can still be open, the oldest first."""
        found = [run for run in self._open.values() if now_ms - run.last_ms < _AGE_MS_MAX]
        return sorted(found, key=lambda run: (run.began_ms, run.request_id))

    def place_of(self, call_id: str) -> Place | None:
        """Where the approval of a call was asked for, if it awaits one."""
        run = self._open.get(call_id.rpartition(_CALL)[0])
        return run.awaiting.get(call_id) if run else None

    def _note(
        self, request_id: str, workflow_id: str, at_ms: int, agent: AgentPart | None
    ) -> OpenRun | None:
        if _print(request_id) in self._closed:
            return None
        run = self._open.get(request_id)
        if run is None:
            run = self._open[request_id] = OpenRun(request_id, workflow_id, at_ms, at_ms)
        run.began_ms, run.last_ms = min(run.began_ms, at_ms), max(run.last_ms, at_ms)
        if agent is not None and (not run.agent or agent.version is not None):
            version = "" if agent.version is None else f" v{agent.version}"
            run.agent = f"{agent.name}{version}"
        return run

    def _decided(self, request_id: str, call_id: str, at_ms: int, *, ended: bool) -> None:
        if (run := self._open.get(request_id)) is not None:
            run.last_ms = max(run.last_ms, at_ms)
            run.awaiting.pop(call_id, None)
            if ended:
                run.open_calls.discard(call_id)

    def _end(self, event: AnswerSummary | DeadLetterSummary) -> None:
        request_id, is_run = event.request_id, event.run is not None
        if isinstance(event, DeadLetterSummary):
            if event.cause.kind == "conflicting_id":  # of another record under that id
                return
            is_run = is_run or bool(event.request and event.request.agent)
        if request_id is None or (self._open.pop(request_id, None) is None and not is_run):
            return
        self._closed[_print(request_id)] = None
        if len(self._closed) > CLOSED_KEPT:
            del self._closed[next(iter(self._closed))]


def _print(request_id: str) -> bytes:
    return hashlib.blake2b(request_id.encode(), digest_size=8).digest()
