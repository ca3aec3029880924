"""What people read of events of runs: what was done and by whom, and no arguments or values."""

from typing import get_args

import pytest

from answerbus.envelope import Undecodable, decode
from answerbus.run_event import RunEvent
from services.operators.records.run_text import run_text
from tests.unit.operators.stored_examples import EXAMPLES, stored

CALL = "0199e7a4-6c1f-7a31-9d52-3f8e0b7c2a10.call.3"


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ("step/calls", "step 2 calls orders.get_order, orders.refund, "),
        ("tool_ended/ok", f"the call {CALL}.0 ended: ok"),
        ("approval_requested/refund", f"the call {CALL}.1 of orders.refund awaits approval"),
        ("input_requested/address", f"the call {CALL}.2 asks a person"),
        ("input/address", f"the question {CALL}.2 is answered by ops@acme"),
        (
            "approval_requested/refund_again",
            f"the call {CALL}.1 of orders.refund awaits approval for delivery 2",
        ),
        ("approval/denied", f"the call {CALL}.1 is denied by ops@acme: the customer has it"),
        ("approval/edited", f"the call {CALL}.1 is changed and approved by kafka:ops: half"),
        ("cancel/workflow", "the workflow is cancelled by ops@acme: order withdrawn"),
        ("control_applied/remembered", "cancel of ops@acme: remembered"),
        ("run/malformed_text", "a run of support v3"),
        ("run_call/ended", ""),
    ],
)
def test_an_event_in_words(example: str, text: str) -> None:
    event = decode(stored(example).value)
    assert not isinstance(event, Undecodable)
    assert isinstance(event, RunEvent)

    assert run_text(event).startswith(text)


def test_no_value_and_no_argument_is_shown() -> None:
    for kind in (model.model_fields["kind"].default for model in get_args(RunEvent)):
        for path in (EXAMPLES / kind).glob("*.json"):
            event = decode(path.read_bytes())
            assert isinstance(event, RunEvent)
            assert "4711" not in run_text(event).replace("control", "")
