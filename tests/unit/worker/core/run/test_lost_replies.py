"""Refunds whose server dies once it has paid, and before it replies: how many are paid twice.

The course of microsoft/agent-framework#3938, of which 209 of 209 were measured to be paid twice
where a retry repeats the call without a key. docs/agents.md has the figures.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from answerbus.private.runs import RunCallRecord, RunRecord, RunStepRecord
from answerbus.reconcile import ToolReconcile, ToolReconciled
from answerbus.step import ToolEnded
from answerbus.tool_call import ToolCallRecord
from services.text.digest import text_digest
from services.worker.core.run import transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.new_run import recovered_run
from services.worker.core.run.run import Run
from tests.unit.worker.builders import ORIGIN
from tests.unit.worker.core.run_builders import asked, call, definition, inputs, result, taken, tool

REFUNDS = 209
STEP_S = 30.0  # within which a time-out is over
ROUNDS_MAX = 20


@dataclass(slots=True)
class Bank:
    """It pays; with keys it pays once for each."""

    has_keys: bool = False
    paid: Counter[str] = field(default_factory=Counter)

    def pay(self, key: str) -> None:
        if not (self.has_keys and self.paid[key]):
            self.paid[key] += 1


@dataclass(slots=True)
class Course:
    """One run: what its worker has written, and what its tool servers do about it.

    So many `deaths` are left to servers that have paid, and so many questions that nobody can
    answer: `unsure`.
    """

    bank: Bank
    change: Change
    deaths: int
    unsure: int
    records: list[Any] = field(default_factory=list)

    def play(self) -> ToolEnded:
        """Until the call ends; the worker is another one after each step, too."""
        for number in range(1, ROUNDS_MAX):
            self.records += self.change.written
            written, self.change = self.change.written, Change(self._recovered())
            for event in written:
                if isinstance(event, ToolEnded):
                    return event
                if said := self._served(event):
                    found = transitions.on_signal(self.change.run, said, inputs(STEP_S * number))
                    self.change = found or self.change
            if not self.change.written:
                self.change = transitions.on_timeout(self.change.run, inputs(STEP_S * number))
        raise AssertionError("the call does not end")

    def _served(self, event: object) -> Any:
        match event:
            case ToolCallRecord():
                self.bank.pay(event.call_id)
                self.deaths -= 1
                return result(event, "paid") if self.deaths < 0 else None
            case ToolReconcile():
                self.unsure -= 1
                kind = "happened" if self.bank.paid[event.call_id] else "did_not_happen"
                finding = {"kind": "unknown" if self.unsure >= 0 else kind}
                body = event.model_dump(include={"call_id", "question", "workflow_id"})
                fields = {**body, "token": event.reply.token, "finding": finding}
                return ToolReconciled.model_validate(fields)
            case _:
                return None

    def _recovered(self) -> Run:
        """As a worker reads it that was not there before."""
        run = self.change.run
        head = RunRecord(
            request=asked(), body_digest=text_digest("x"), origin=ORIGIN, definition=run.definition
        )
        steps = [one for one in self.records if isinstance(one, RunStepRecord)]
        calls = {one.place: one for one in self.records if isinstance(one, RunCallRecord)}
        return recovered_run(head, steps, [*calls.values()])


@pytest.mark.wide
@pytest.mark.parametrize(
    ("card", "has_keys", "doubled", "unknown"),
    [
        ({}, False, REFUNDS, 0),
        ({}, True, 0, 0),
        ({"delivery": "at_most_once"}, False, 0, REFUNDS),
        ({"delivery": "at_most_once", "reconcilable": True}, False, 0, 0),
    ],
)
def test_how_many_are_paid_twice_and_of_how_many_nobody_knows(
    card: Mapping[str, Any], has_keys: bool, doubled: int, unknown: int
) -> None:
    found = Counter[str]()
    begun = taken(Run(definition(tool("orders.refund", **card))), call("orders.refund"))
    for number in range(REFUNDS):
        bank = Bank(has_keys)
        course = Course(bank, begun, deaths=1 + number % 2, unsure=number % 3)
        outcome = course.play().outcome.model_dump()
        found["doubled"] += sum(bank.paid.values()) > 1
        found["unknown"] += outcome.get("ran") == "unknown"

    assert (found["doubled"], found["unknown"]) == (doubled, unknown)
