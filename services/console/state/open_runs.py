"""The runs that are open, and the calls of them that await a person; pure."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from answerbus.call_id import request_of_call
from answerbus.request_key import CallKey, RequestKey
from services.operators.records.event_parts import AgentPart
from services.operators.records.event_summary import (
    AnswerSummary,
    DeadLetterSummary,
    RequestSummary,
)
from services.operators.records.run_summary import (
    ApprovalRequestedSummary,
    ApprovalSummary,
    ControlAppliedSummary,
    InputRequestedSummary,
    InputSummary,
    StepSummary,
    ToolEndedSummary,
)
from services.operators.records.stored import RecordPosition
from services.operators.records.summary import RecordSummary
from services.operators.runs.open_approvals import APPROVAL_AGE_MAX

DECISIONS_KEPT = 10_000  # that no worker has read yet
CLOSED_KEPT = 200_000  # ids of runs that ended, since topics are not read in step
_AGE_MS_MAX = int(APPROVAL_AGE_MAX.total_seconds() * 1000)
_FORGET_EVERY_MS = 24 * 3600 * 1000  # of what is read

Matter = tuple[Literal["delivery", "question"], int, int]
"""A person decides whether a delivery of a call may run, or answers a question of its tool.

A delivery has two numbers: that of the last question before it, and its own since then.
"""


@dataclass(frozen=True, slots=True)
class AskedApproval:
    """Where and when a person was asked, and about what."""

    place: RecordPosition
    at_ms: int
    matter: Matter


@dataclass(slots=True)
class OpenRun:
    """A run that has had no outcome; `awaiting` are the calls that await a person."""

    request_id: str
    workflow_id: str
    began_ms: int
    last_ms: int
    agent: str = ""
    step: int = 0
    open_calls: set[str] = field(default_factory=set)
    awaiting: dict[str, AskedApproval] = field(default_factory=dict)


class OpenRuns:
    """Folded from summaries, of topics in any order; what one partition says is in its order."""

    def __init__(self) -> None:
        self._open: dict[RequestKey, OpenRun] = {}
        self._closed: dict[bytes, None] = {}
        self._decisions: OrderedDict[CallKey, tuple[Matter, str]] = OrderedDict()
        self._newest_ms = self._forgets_at_ms = 0  # by steps alone, which only workers write

    def take(self, record: RecordSummary) -> None:
        match record.event:
            case RequestSummary(agent=AgentPart() as agent) as event:
                self._note(RequestKey.of(event), record.at_ms, agent)
            case StepSummary(request_id=str(request_id)) as event:
                self._pass(record.at_ms)
                run = self._note(
                    RequestKey(event.workflow_id, request_id), record.at_ms, event.agent
                )
                if run is not None:
                    run.step = max(run.step, event.n)
                    run.open_calls |= {
                        call.call_id for call in event.calls if call.state != "ended"
                    }
            case (
                ApprovalRequestedSummary(request_id=str(request_id))
                | InputRequestedSummary(request_id=str(request_id))
            ) as event:
                run = self._note(RequestKey(event.workflow_id, request_id), record.at_ms, None)
                if run is not None:
                    run.awaiting[event.call_id] = AskedApproval(
                        record.place, record.at_ms, _matter(event)
                    )
            case ToolEndedSummary(request_id=str(request_id)) as event:
                run_key = RequestKey(event.workflow_id, request_id)
                self._decided(run_key, event.call_id, record.at_ms, ended=True)
            case (ApprovalSummary() | InputSummary() | ControlAppliedSummary()) as event:
                self._take_decision(event, record.at_ms)
            case (AnswerSummary() | DeadLetterSummary()) as event:
                self._end(event)
            case _:
                pass

    def _take_decision(
        self, event: ApprovalSummary | InputSummary | ControlAppliedSummary, at_ms: int
    ) -> None:
        """A person's decision on a call, and a worker's response to it."""
        if event.control.call_id is None:
            return
        call = CallKey(event.workflow_id, event.control.call_id)
        match event:
            case ApprovalSummary():
                what = f"{event.decision.capitalize()} by {event.by}"
                self._keep(call, ("delivery", event.after_input, event.delivery), what)
            case InputSummary():
                self._keep(call, ("question", event.number, 0), f"Answered by {event.by}")
            case ControlAppliedSummary(effect="approved" | "denied" | "answered"):
                self._decided(_run_of(call), call.call_id, at_ms, ended=False)
            case ControlAppliedSummary():  # the call goes on waiting for one that counts
                self._decisions.pop(call, None)

    def _keep(self, call: CallKey, matter: Matter, text: str) -> None:
        self._decisions[call] = matter, text
        if len(self._decisions) > DECISIONS_KEPT:
            self._decisions.popitem(last=False)

    def runs(self, now_ms: int) -> Sequence[OpenRun]:
        """Those that can still be open, the oldest first."""
        found = [run for run in self._open.values() if now_ms - run.last_ms < _AGE_MS_MAX]
        return sorted(found, key=lambda run: (run.began_ms, run.workflow_id, run.request_id))

    def asked_ms(self, now_ms: int) -> Sequence[int]:
        """When each of the approvals was asked for that a person has not decided."""
        return [
            asked.at_ms
            for run in self.runs(now_ms)
            for call_id, asked in run.awaiting.items()
            if self._decision(CallKey(run.workflow_id, call_id), asked) is None
        ]

    def decision_on(self, call: CallKey) -> str | None:
        """What a person has decided and no worker has read yet: `Approved by night`."""
        run = self._open.get(_run_of(call))
        asked = run.awaiting.get(call.call_id) if run else None
        return self._decision(call, asked) if asked else None

    def _decision(self, call: CallKey, asked: AskedApproval) -> str | None:
        """One about an earlier delivery or question of the call was another."""
        matter, text = self._decisions.get(call, (None, ""))
        return text if matter == asked.matter else None

    def place_of(self, call: CallKey) -> RecordPosition | None:
        """Where the approval of a call was asked for, if no person has decided it."""
        run = self._open.get(_run_of(call))
        asked = run.awaiting.get(call.call_id) if run else None
        return asked.place if asked and self._decision(call, asked) is None else None

    def _pass(self, at_ms: int) -> None:
        """Forget the runs that are over for their age: steps are kept for longer than results."""
        self._newest_ms = max(self._newest_ms, at_ms)
        if self._newest_ms < self._forgets_at_ms:
            return
        self._forgets_at_ms = self._newest_ms + _FORGET_EVERY_MS
        old = [key for key, run in self._open.items() if self._is_old(run.last_ms)]
        for key in old:
            del self._open[key]

    def _is_old(self, at_ms: int) -> bool:
        return self._newest_ms - at_ms >= _AGE_MS_MAX

    def _note(self, key: RequestKey, at_ms: int, agent: AgentPart | None) -> OpenRun | None:
        if self._is_old(at_ms) or _digest(key) in self._closed:
            return None
        run = self._open.get(key)
        if run is None:
            run = self._open[key] = OpenRun(key.request_id, key.workflow_id, at_ms, at_ms)
        run.began_ms, run.last_ms = min(run.began_ms, at_ms), max(run.last_ms, at_ms)
        if agent is not None and (not run.agent or agent.version is not None):
            version = "" if agent.version is None else f" v{agent.version}"
            run.agent = f"{agent.name}{version}"
        return run

    def _decided(self, key: RequestKey, call_id: str, at_ms: int, *, ended: bool) -> None:
        if (run := self._open.get(key)) is not None:
            run.last_ms = max(run.last_ms, at_ms)
            run.awaiting.pop(call_id, None)
            if ended:
                run.open_calls.discard(call_id)

    def _end(self, event: AnswerSummary | DeadLetterSummary) -> None:
        is_run = event.run is not None
        if isinstance(event, DeadLetterSummary):
            if event.cause.kind == "conflicting_id":  # of another record under that id
                return
            is_run = is_run or bool(event.request and event.request.agent)
        if event.request_id is None or event.workflow_id is None:
            return
        key = RequestKey(event.workflow_id, event.request_id)
        if self._open.pop(key, None) is None and not is_run:
            return
        self._closed[_digest(key)] = None
        if len(self._closed) > CLOSED_KEPT:
            del self._closed[next(iter(self._closed))]


def _matter(event: ApprovalRequestedSummary | InputRequestedSummary) -> Matter:
    if isinstance(event, InputRequestedSummary):
        return "question", event.number, 0
    return "delivery", event.after_input, event.delivery


def _run_of(call: CallKey) -> RequestKey:
    return RequestKey(call.workflow_id, request_of_call(call.call_id))


def _digest(key: RequestKey) -> bytes:
    return hashlib.blake2b(key.record_key().encode(), digest_size=8).digest()
