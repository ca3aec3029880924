"""The summary of a run adds up all that it used, at once."""

from dataclasses import replace
from typing import Any

import pytest

from answerbus.budget import Usage
from services.worker.core.run import transitions
from services.worker.core.run.run import Run
from tests.unit.worker.core.run_builders import call, definition, inputs, result, sent, taken

CALLS = 32


def test_a_summary_makes_no_usage_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    change = taken(
        Run(definition(parallel_max=CALLS)), *(call(order_id=str(n)) for n in range(CALLS))
    )
    for order in sent(change):
        change = transitions.on_result(change.run, result(order), inputs(1)) or change
    cost = Usage(micro_usd=2, cached_tokens=3)
    calls = {name: one.model_copy(update={"usage": cost}) for name, one in change.run.calls.items()}
    run, made, make = replace(change.run, calls=calls), list[Usage](), Usage.__init__

    def counted(self: Usage, **fields: Any) -> None:
        made.append(self)
        make(self, **fields)

    since = Usage(output_tokens=7)
    monkeypatch.setattr(Usage, "__init__", counted)
    summary = run.summary(since)

    assert summary.tool_calls == CALLS
    assert summary.usage == Usage(
        input_tokens=10, output_tokens=12, micro_usd=2 * CALLS, cached_tokens=3 * CALLS
    )
    assert len(made) <= 2
