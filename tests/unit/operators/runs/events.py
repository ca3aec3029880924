"""The events of runs, made by hand of the committed examples, as a worker would write them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from answerbus.envelope import Undecodable, decode
from answerbus.event import Event
from tests.unit.operators.stored_examples import body_of

WORKFLOW = "order-4711"
BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)
AGENT = {"name": "support", "version": 3, "digest": "sha256:" + "0" * 64}


def event(example: str, **changes: Any) -> Event:
    found = decode(json.dumps(body_of(example, **{"workflow_id": WORKFLOW, **changes})).encode())
    assert not isinstance(found, Undecodable), found
    return found


def at(second: float) -> str:
    return (BEGAN + timedelta(seconds=second)).isoformat()


def asked(request_id: str, **changes: Any) -> Event:
    return event("request/minimal", request_id=request_id, **changes)


def attempt(request_id: str, number: int, **changes: Any) -> Event:
    fields = {"event_id": f"{request_id}.attempt.{number}", "attempt": number, "counted": True}
    return event("attempt/retry", request_id=request_id, **{**fields, "outcome": "step", **changes})


def call(request_id: str, number: int, place: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "call_id": f"{request_id}.call.{number}.{place}",
        "tool": "orders.get_order",
        "args": {"order_id": "4711"},
        "args_digest": "sha256:" + "1" * 64,
        "state": "called",
        **changes,
    }


def step(request_id: str, n: int, *calls: dict[str, Any], second: float = 0, **more: Any) -> Event:
    """The n-th step, of the n-th attempt."""
    return event(
        "step/calls",
        **{
            "event_id": f"{request_id}.step.{n}",
            "request_id": request_id,
            "n": n,
            "attempt": n,
            "agent": AGENT,
            "said": ["Looking it up."],
            "calls": list(calls or [call(request_id, n)]),
            "at": at(second or n),
            **more,
        },
    )


def ended(call_id: str, example: str = "ok", **changes: Any) -> Event:
    request_id = call_id.partition(".call.")[0]
    about = {"event_id": f"{call_id}.ended", "request_id": request_id, "call_id": call_id}
    return event(f"tool_ended/{example}", **{**about, **changes})


def approval_asked(call_id: str, **changes: Any) -> Event:
    request_id = call_id.partition(".call.")[0]
    about = {"event_id": f"{call_id}.approval", "request_id": request_id, "call_id": call_id}
    return event("approval_requested/refund", **{**about, **changes})


def decided(call_id: str, decision: str = "approved", **changes: Any) -> Event:
    workflow = changes.get("workflow_id", WORKFLOW)
    control = body_of(f"approval/{decision}", call_id=call_id, workflow_id=workflow)
    control["delivery"] = changes.pop("delivery", 1)
    control["after_input"] = changes.pop("after_input", 0)
    return event(f"control_applied/{decision}", control=control, **changes)


def parent(call_id: str) -> dict[str, Any]:
    """The run that makes the call; of a child's own call, that child."""
    return {"request_id": call_id.rpartition(".call.")[0], "call_id": call_id, "depth": 1}


def result(request_id: str, **changes: Any) -> Event:
    about = {"event_id": f"{request_id}.result", "request_id": request_id}
    return event("result/text", **{**about, **changes})
