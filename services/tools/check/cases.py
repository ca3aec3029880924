"""The records that a check sends, each with the reaction required of a server; pure."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from answerbus.reconcile import ToolReconcile
from answerbus.tool_call import ToolCallRecord, ToolCancel
from services.tools.check.call_by_hand import HandCaller

EXPIRED_S = -60.0
NO_SUCH_TOOL = "no-such-tool"
UNAPPROVED = "a call without approval does not run"
OTHER_MEMBER = "answerbus-check"  # a member of no tool's arguments

Expected = Literal["ok", "error", "nothing", "same", "happened", "not_happened"]
Verdict = Literal["ok", "wrong", "skipped"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was found of one rule; `said` is what was seen, and where it is wrong, what is right."""

    rule: str
    verdict: Verdict
    said: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A call that may be run, chosen by who checks: it has the effect that the tool has."""

    tool: str
    args: dict[str, JsonValue]
    approved_by: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Records to send, and what is to come of the call among them."""

    rule: str
    expected: Expected
    records: Sequence[bytes]
    call_id: str | None = None
    code: str | None = None  # of the failure that is expected
    aborted: bool = False


@dataclass(frozen=True, slots=True)
class CaseBuilder:
    """Makes all cases of one check; call ids begin with the caller's name."""

    caller: HandCaller
    toolset: str
    at: datetime
    expires_s: float

    def without_effects(self) -> Sequence[Case]:
        """None of these may run anything."""
        unknown = self._call("unknown-tool", NO_SUCH_TOOL, {})
        foreign = self._changed("foreign", toolset=f"{self.toolset[:50]}-other")
        return (
            self._undecodable("bad JSON", b'{"kind":"tool_call","call_id":'),
            self._undecodable("a text that is not an event", b"hello"),
            self._undecodable("a record without a value's fields", b"{}"),
            self._undecodable("an event of another kind", _cancel(self, "nothing")),
            Case(
                "another toolset's call is left alone",
                "nothing",
                [_bytes(foreign)],
                foreign.call_id,
            ),
            Case(
                "an unknown tool is an error",
                "error",
                [_bytes(unknown)],
                unknown.call_id,
                code="unknown_tool",
            ),
        )

    def with_sample(
        self, sample: Sample, *, wrong_args: dict[str, JsonValue] | None, needs_approval: bool
    ) -> Sequence[Case]:
        """Cases in which only the sample may run, and its repeat if its answer is new."""
        first = self._sample("sample", sample)
        expired = self._sample("expired", sample, expires_s=EXPIRED_S)
        aborted = self._sample("aborted", sample)
        again = first.model_copy(update={"delivery": 2})
        cases = [
            Case(
                "an aborted call is not read",
                "nothing",
                [_bytes(aborted)],
                aborted.call_id,
                aborted=True,
            ),
            Case("an expired call does not run", "nothing", [_bytes(expired)], expired.call_id),
            Case("a call is answered", "ok", [_bytes(first)], first.call_id),
            Case("a repeated call has the same answer", "same", [_bytes(again)], first.call_id),
        ]
        if wrong_args is not None:
            wrong = self._sample("wrong-args", Sample(sample.tool, wrong_args, sample.approved_by))
            rule = "wrong arguments are an error"
            cases.append(Case(rule, "error", [_bytes(wrong)], wrong.call_id, "invalid_args"))
        if needs_approval:
            bare = self._sample("not-approved", Sample(sample.tool, sample.args))
            cases.append(
                Case(
                    UNAPPROVED,
                    "error",
                    [_bytes(bare)],
                    bare.call_id,
                    code="not_approved",
                )
            )
        return cases

    def questions(self, reconcilable: Collection[str], sample: Sample | None) -> Sequence[Case]:
        """Put once all else is answered: about the sample, and calls that were never made."""
        cases = [
            self._question(
                "a call that was never made is not reported as happened",
                "not_happened",
                self._call(f"never-made-{number}", tool, sample.args if sample else {}),
            )
            for number, tool in enumerate(sorted(reconcilable))
        ]
        if sample and sample.tool in reconcilable:
            rule = "a call that ran is reported as happened"
            cases.append(self._question(rule, "happened", self._sample("sample", sample)))
        return cases

    def _question(self, rule: str, expected: Expected, about: ToolCallRecord) -> Case:
        record = _bytes(self.caller.question(about))
        return Case(rule, expected, [record], about.call_id)

    def last(self) -> Case:
        """Sent behind all others: a server that answers it has read them."""
        unknown = self._call("last", NO_SUCH_TOOL, {})
        return Case(
            "a server goes on after all of this", "error", [_bytes(unknown)], unknown.call_id
        )

    def _sample(self, name: str, sample: Sample, expires_s: float | None = None) -> ToolCallRecord:
        return self._call(name, sample.tool, sample.args, expires_s, sample.approved_by)

    def _call(
        self,
        name: str,
        tool: str,
        args: dict[str, JsonValue],
        expires_s: float | None = None,
        approved_by: str | None = None,
    ) -> ToolCallRecord:
        return self.caller.call(
            f"{self.caller.name}.{name}",
            self.toolset,
            tool,
            args,
            at=self.at,
            expires_s=self.expires_s if expires_s is None else expires_s,
            approved_by=approved_by,
        )

    def _changed(self, name: str, **changes: object) -> ToolCallRecord:
        return self._call(name, NO_SUCH_TOOL, {}).model_copy(update=changes)

    def _undecodable(self, what: str, value: bytes) -> Case:
        return Case(f"{what} is skipped", "nothing", [value])


def _cancel(maker: CaseBuilder, name: str) -> bytes:
    """Of a call that was not made."""
    cancelled = ToolCancel(
        call_id=f"{maker.caller.name}.{name}",
        request_id=maker.caller.name,
        workflow_id=maker.caller.name,
        toolset=maker.toolset,
        at=maker.at,
    )
    return _bytes(cancelled)


def _bytes(event: ToolCallRecord | ToolCancel | ToolReconcile) -> bytes:
    return json.dumps(event.model_dump(mode="json")).encode()
