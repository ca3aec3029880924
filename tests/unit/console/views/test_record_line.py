"""What the tail says of each record."""

from typing import Any

import pytest

from services.console.views.record_line import what_of
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import EXAMPLES, body_of, stored


@pytest.mark.parametrize(
    ("example", "changes", "text"),
    [
        ("request/minimal", {}, "text, default"),
        ("retry_request/unavailable", {}, "plan_proposal.v1, default, unavailable, attempt 2"),
        (
            "attempt/retry",
            {"duration_ms": 1_250},
            "default, {model}, retry, invalid, attempt 3, 1.2 s",
        ),
        ("attempt/unknown", {"model": None}, "unknown, attempt 2"),
        ("result/dep_bump", {}, "plan_proposal.v1, default, {model}, attempt 2"),
        ("dead_letter/unknown_profile", {}, "plan_proposal.v1, giant, unknown profile"),
        ("replayed/unchanged", {}, ""),
        ("account/busy", {}, ""),
        ("step/calls", {"n": 3}, "support, step 3, 4 tool calls"),
        ("tool_ended/timed_out", {}, "orders.get_order, timed out, 30 s"),
        ("approval_requested/refund", {}, "orders.refund"),
        ("control_applied/denied", {}, "approval, denied"),
        ("budget_nearly_spent/month", {}, "tenant:acme, 2026-11"),
    ],
)
def test_a_line(example: str, changes: dict[str, Any], text: str) -> None:
    model = (body_of(example, **changes).get("model") or {}).get("model")

    assert what_of(summarize(stored(example, **changes))) == text.format(model=model)


def test_every_event_has_a_line() -> None:
    for path in EXAMPLES.rglob("*.json"):
        what_of(summarize(stored(f"{path.parent.name}/{path.stem}")))
