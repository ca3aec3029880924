"""Which calls await a person: those asked for, not decided, not ended, and not too late."""

from datetime import UTC, datetime, timedelta

from answerbus.control import ApprovalRequested
from answerbus.event import Event
from services.operators.runs.open_approvals import OpenApprovals, may_concern_approvals
from tests.unit.operators.runs.events import (
    WORKFLOW,
    approval_asked,
    decided,
    ended,
    event,
    step,
)
from tests.unit.operators.stored_examples import stored

NOW = datetime(2026, 11, 21, 10, 1, tzinfo=UTC)


def waiting(*events: Event, now: datetime = NOW) -> list[str]:
    found = OpenApprovals()
    for one in events:
        found.take(one)
    return [asked.call_id for asked in found.waiting(None, now)]


def test_a_call_waits_until_it_is_decided_or_ends() -> None:
    first, second, third = (approval_asked(f"r-{n}.call.1.0") for n in range(3))

    assert waiting(first, second, third) == ["r-0.call.1.0", "r-1.call.1.0", "r-2.call.1.0"]
    assert waiting(first, second, third, decided("r-1.call.1.0"), ended("r-2.call.1.0")) == [
        "r-0.call.1.0"
    ]
    assert waiting(first, decided("r-0.call.1.0", "denied")) == []


def test_a_control_that_came_to_nothing_decides_nothing() -> None:
    nothing = event("control_applied/nothing")
    assert waiting(approval_asked("r-0.call.1.0"), nothing) == ["r-0.call.1.0"]


def test_a_call_whose_time_is_over_waits_no_more() -> None:
    asked = approval_asked("r-0.call.1.0")
    assert isinstance(asked, ApprovalRequested)
    found = OpenApprovals()
    found.take(asked)

    assert found.named("r-0.call.1.0", None, NOW) == [asked]
    assert found.named("r-0.call.1.0", None, asked.expires_at) == []
    assert found.named("another", None, NOW) == []
    assert waiting(asked, now=asked.expires_at + timedelta(seconds=1)) == []


def test_what_cannot_concern_them_is_not_decoded() -> None:
    for example in ("approval_requested/refund", "tool_ended/ok", "control_applied/approved"):
        assert may_concern_approvals(stored(example))
    assert not may_concern_approvals(stored("step/calls"))
    assert waiting(step("r-1", 1)) == []


def test_calls_of_two_workflows_with_one_id_are_two() -> None:
    asked = approval_asked("r-0.call.1.0")
    found = OpenApprovals()
    namesake = approval_asked("r-0.call.1.0", workflow_id="stranger")
    for one in (asked, namesake):
        found.take(one)

    named = found.named("r-0.call.1.0", None, NOW)
    assert [one.workflow_id for one in named] == [WORKFLOW, "stranger"]
    assert found.named("r-0.call.1.0", "stranger", NOW) == [namesake]


def test_the_end_or_decision_of_a_namesake_changes_nothing() -> None:
    asked = approval_asked("r-0.call.1.0")
    for end in (decided, ended):
        assert waiting(asked, end("r-0.call.1.0", workflow_id="stranger")) == ["r-0.call.1.0"]
