"""What people read of events of tools: which call, and no arguments or values."""

import pytest

from answerbus.envelope import Undecodable, decode
from services.operators.records.tool_text import tool_text
from tests.unit.operators.stored_examples import stored

CALL = "0199e7a4-6c1f-7a31-9d52-3f8e0b7c2a10.call"


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ("tool_call/at_least_once", f"calls orders.get_order as {CALL}.3.0"),
        ("tool_call/approved", f"calls orders.refund as {CALL}.4.0, delivery 2"),
        ("tool_cancel/run_cancelled", f"cancels the call {CALL}.3.0: the run was cancelled"),
        ("tool_reconcile/refund", f"asks whether the call {CALL}.3.1 had its effect"),
        ("tool_reconciled/unknown", f"the effect of the call {CALL}.3.1: unknown"),
        ("tool_progress/page", f"the call {CALL}.3.0 goes on: page 3 of 10"),
        ("tool_result/ok", f"the call {CALL}.3.0 ended well"),
        ("tool_result/failed", f"the call {CALL}.3.0 failed, not_found: no such order"),
        ("toolset/orders", "the toolset orders has 2 tools"),
    ],
)
def test_an_event_in_words(example: str, text: str) -> None:
    event = decode(stored(example).value)
    assert not isinstance(event, Undecodable)

    assert tool_text(event) == text  # type: ignore[arg-type]  # an event of a tool, by its example
