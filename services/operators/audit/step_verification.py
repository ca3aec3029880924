"""Verifies that the steps of runs are complete and unchanged, and agree with other events; pure.

Held against attempts that became steps, and against outcomes that count steps and calls.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, ValidationError

from answerbus import json_text
from answerbus.attempt import Attempt
from answerbus.control import UNPROVED, Approval, ControlApplied
from answerbus.envelope import decode
from answerbus.fail_fast import JsonReader
from answerbus.request_key import RequestKey
from answerbus.step import Step, ToolEnded
from services.operators.audit.findings import AuditFinding, FindingKind
from services.operators.audit.step_chain import StepChain
from services.operators.records.stored import RecordPosition, Stored
from services.text.digest import record_digest

_CHAINED = JsonReader.of(Annotated[Step | ToolEnded, Field(discriminator="kind")])
_SIGNS = (b'"step"', b'"tool_ended"')

_Link = tuple[RequestKey, int]  # a request and the number of an attempt


@dataclass(frozen=True, slots=True)
class RunEnd:
    """A terminal of a run: its position, and what it counts."""

    place: RecordPosition
    at_ms: int
    steps: int
    tool_calls: int


@dataclass(slots=True)
class StepVerification:
    """Takes outcomes and attempts first, then the records of the steps topic in their order."""

    was_cut: bool
    workflow_id: str | None = None
    steps: int = 0
    findings: list[AuditFinding] = field(default_factory=list)
    doubtful: dict[RecordPosition, str] = field(default_factory=dict)  # approvals, and why
    _chains: dict[RequestKey, StepChain] = field(default_factory=dict)
    _heads: dict[str, RequestKey] = field(default_factory=dict)  # the runs by the last hash of each
    _ended: dict[RequestKey, RunEnd] = field(default_factory=dict)
    _expected: dict[_Link, tuple[RecordPosition, int]] = field(default_factory=dict)
    _without: dict[_Link, tuple[RecordPosition, int]] = field(default_factory=dict)
    _begins_at_ms: int | None = None

    @property
    def runs(self) -> int:
        """How many have steps here."""
        return len(self._chains)

    def claim(self, request: RequestKey, ended: RunEnd) -> None:
        """A run has had its outcome."""
        self._ended.setdefault(request, ended)

    def became_step(self, attempt: Attempt, stored: Stored) -> None:
        """An attempt says that it became a step."""
        link = RequestKey.of(attempt), attempt.attempt
        if self._without.pop(link, None) is None:
            self._expected[link] = stored.place, stored.at_ms

    def take(self, stored: Stored) -> None:
        """The next record of the steps."""
        if self._begins_at_ms is None:
            self._begins_at_ms = stored.at_ms
        if not any(sign in (stored.value or b"") for sign in _SIGNS):
            self._look_at_approval(stored)
            return  # what people are asked and say is in no chain
        read = _read(stored)
        if isinstance(read, AuditFinding):
            self.findings.append(read)
        elif read is not None and self.workflow_id in (None, read[0].workflow_id):
            self._judge(stored, *read)

    def _look_at_approval(self, stored: Stored) -> None:
        """Note one that was not allowed, and one that had effect and was not proved."""
        if b'"control_applied"' not in (stored.value or b""):
            return
        applied = decode(stored.value)
        if not isinstance(applied, ControlApplied) or not isinstance(applied.control, Approval):
            return
        approval = applied.control
        if self.workflow_id not in (None, approval.workflow_id):
            return
        about = f"{approval.decision} {approval.call_id} of {approval.workflow_id}, {approval.by}"
        if applied.is_misplaced:
            self.doubtful[stored.place] = f"{about}: not on the approvals topic, no effect"
        elif applied.effect == "approved" and approval.by.startswith(UNPROVED):
            self.doubtful[stored.place] = f"{about}: who approved was not proved"

    def is_settled(self) -> bool:
        """Whether each step has its attempt, and each such attempt its step."""
        return not self._without and not any(self._missing())

    def end(self, *, attempts_begin_at_ms: int | None) -> None:
        """Note what is missing; attempts before that moment are no longer kept."""
        for (request, number), place in self._missing():
            name = request.request_id
            expected = f"the step that attempt {number} of {name} became"
            self._fault(request, "no_step", f"{name}.step.{number}", place, expected)
        for (request, number), (place, at_ms) in self._without.items():
            if attempts_begin_at_ms is None or at_ms > attempts_begin_at_ms:
                expected = f"attempt {number} of {request.request_id} to have become it"
                self._fault(request, "no_attempt", None, place, expected)
        for request, ended in self._ended.items():
            chain = self._chains.get(request)
            if chain is None and (self._is_before_the_cut(ended.at_ms) or not ended.steps):
                continue
            wrong = (chain or StepChain()).ended_otherwise(ended.steps, ended.tool_calls)
            if wrong:
                self._fault(request, "no_step", None, ended.place, wrong)

    def _judge(self, stored: Stored, event: Step | ToolEnded, computed: str) -> None:
        self.steps += isinstance(event, Step)
        if isinstance(event, Step) and event.composed is None:
            link = RequestKey.of(event), event.attempt
            if self._expected.pop(link, None) is None:
                self._without.setdefault(link, (stored.place, stored.at_ms))
        key, chain = RequestKey.of(event), self._chain_of(event)
        if chain.is_broken:
            return
        if event.hash != computed:
            expected = f"its hash to be {computed}"
            self._fault(key, "changed", event.event_id, stored.place, expected)
        elif wrong := chain.follow(event, was_cut=self.was_cut):
            self._fault(key, wrong[0], event.event_id, stored.place, wrong[1])
        else:
            self._heads.pop(event.previous or "", None)
            self._heads[event.hash] = key

    def _chain_of(self, event: Step | ToolEnded) -> StepChain:
        """The one of its run; a replay's begins where that of the run that died has ended."""
        key = RequestKey.of(event)
        found = self._chains.get(key)
        if found is None:
            head = self._heads.get(event.previous or "")
            died = self._chains.get(head) if head else None
            is_over = died is not None and not died.is_broken and not died.open_calls
            found = died.goes_on() if died and is_over else StepChain()
            self._chains[key] = found
        return found

    def _missing(self) -> Iterator[tuple[_Link, RecordPosition]]:
        for link, (place, at_ms) in self._expected.items():
            if not self._is_before_the_cut(at_ms):
                yield link, place

    def _is_before_the_cut(self, at_ms: int) -> bool:
        begins = self._begins_at_ms
        return self.was_cut and (begins is None or at_ms <= begins)

    def _fault(
        self,
        request: RequestKey,
        kind: FindingKind,
        event_id: str | None,
        place: RecordPosition,
        expected: str,
    ) -> None:
        """Note a break, unless the run has one already: one makes many others."""
        chain = self._chains.setdefault(request, StepChain())
        if not chain.is_broken:
            about = event_id or request.request_id
            self.findings.append(AuditFinding(kind, None, about, place, expected))
        chain.is_broken = True


def _read(stored: Stored) -> tuple[Step | ToolEnded, str] | AuditFinding | None:
    """The record and the hash that its body has; None for what is in no chain."""
    parsed = json_text.parse(stored.value or b"")
    if not isinstance(parsed, json_text.Parsed) or not isinstance(parsed.value, dict):
        return AuditFinding("unreadable", None, None, stored.place, "strict JSON")
    if parsed.value.get("kind") not in ("step", "tool_ended"):
        return None
    try:
        event = _CHAINED.validate_json(stored.value or b"")
    except ValidationError as error:
        wrong = f"a step or an end of a call ({error.error_count()} of its fields are not right)"
        return AuditFinding("unreadable", None, None, stored.place, wrong)
    return event, record_digest(parsed.value)
