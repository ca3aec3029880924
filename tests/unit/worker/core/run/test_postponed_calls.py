"""Calls whose topic cannot be written wait as for a server that is silent, and end in time."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from answerbus.budget import Usage
from answerbus.cause import Cancelled
from answerbus.step import Step, ToolEnded
from answerbus.tool_call import ToolCancel
from services.worker.core.run import transitions
from services.worker.core.run.call_changes import Change
from services.worker.core.run.events import RunInputs
from services.worker.core.run.postponed_calls import POSTPONED
from services.worker.core.run.run import Run
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    USAGE,
    call,
    definition,
    inputs,
    result,
    sent,
    step,
    tool,
)

TIMEOUT_S = 30.0
AGAIN_S = POSTPONED / timedelta(seconds=1)


def at(seconds: float, *away: str) -> RunInputs:
    """Inputs of a moment at which these toolsets cannot be written."""
    found = inputs(seconds)
    for toolset in away:
        found.tools.unavailable.failed(toolset, found.now)
    return found


def new_run(*names: str, away: str = "orders", **more: Any) -> Change:
    """A step whose calls are of a toolset that is away."""
    tools = (tool(), tool("orders.pay", delivery="at_most_once"), tool("echo.echo"))
    run = Run(definition(*tools, **more))
    answer = step(run.definition, *map(call, names))
    return transitions.take_step(run, answer, 1, USAGE, Usage(), ACCOUNT, at(0, away))


def outcomes(change: Change) -> list[dict[str, Any]]:
    return [e.outcome.model_dump() for e in change.written if isinstance(e, ToolEnded)]


def test_a_call_waits_and_is_made_when_its_topic_can_be_written_again() -> None:
    first = new_run("orders.get", "echo.echo")
    (event,) = (e for e in first.written if isinstance(e, Step))
    assert [asked.state for asked in event.calls] == ["waiting", "called"]
    assert [made.toolset for made in sent(first)] == ["echo"]
    assert first.run.due_at == at(AGAIN_S).now

    later = transitions.on_timeout(first.run, at(AGAIN_S, "orders"))
    assert (sent(later), later.run.due_at) == ([], at(2 * AGAIN_S).now)

    again = transitions.on_timeout(later.run, at(2 * AGAIN_S))
    assert [(made.tool, made.delivery) for made in sent(again)] == [("get", 1)]
    ended = transitions.on_result(again.run, result(sent(again)[0]), at(2 * AGAIN_S + 1))
    assert ended is not None
    assert [outcome["kind"] for outcome in outcomes(ended)] == ["ok"]


def test_a_call_that_was_never_written_ends_as_one_that_did_not_run() -> None:
    change, seconds = new_run("orders.get", "orders.pay"), 0.0
    while not outcomes(change):
        seconds += AGAIN_S
        change = transitions.on_timeout(change.run, at(seconds, "orders"))
        assert seconds <= TIMEOUT_S
    fields = {"kind": "timed_out", "after_s": TIMEOUT_S, "ran": "no"}
    assert outcomes(change) == [fields, fields]
    assert change.run.open == ()


def test_a_call_that_was_written_before_may_have_run() -> None:
    first = new_run("orders.get", "orders.pay", away="others")
    change = transitions.on_timeout(first.run, at(TIMEOUT_S, "orders"))
    assert outcomes(change) == [{"kind": "timed_out", "after_s": TIMEOUT_S, "ran": "unknown"}]
    assert [it.asked.tool for it in change.run.open] == ["orders.get"], "it may be called again"
    again = transitions.on_timeout(change.run, at(TIMEOUT_S + AGAIN_S))
    assert [made.delivery for made in sent(again)] == [2]

    late = transitions.on_timeout(change.run, at(2 * TIMEOUT_S, "orders"))
    assert [outcome["ran"] for outcome in outcomes(late)] == ["unknown"]


def test_calls_that_wait_for_their_topic_take_no_room_and_keep_to_it_afterwards() -> None:
    first = new_run("orders.get", "orders.get", "echo.echo", "echo.echo", parallel_max=1)
    assert [made.toolset for made in sent(first)] == ["echo"]
    again = transitions.on_timeout(first.run, at(AGAIN_S))
    assert sent(again) == [], "one call is under way"
    heard = transitions.on_result(again.run, result(sent(first)[0]), at(AGAIN_S + 1))
    assert heard is not None
    assert [made.toolset for made in sent(heard)] == ["orders"]


def test_no_cancellation_is_written_to_a_topic_that_is_away() -> None:
    first = new_run("orders.get", away="others")
    stopped = transitions.stopped(first.run, Cancelled(by="ops", reason="why"), at(1, "orders"))
    assert [outcome["kind"] for outcome in outcomes(stopped)] == ["cancelled"]
    assert not any(isinstance(event, ToolCancel) for event in stopped.written)


def test_a_tool_that_changed_is_not_called_until_that_is_accepted_and_can_be_cancelled() -> None:
    def stopped(seconds: float) -> RunInputs:
        found = inputs(seconds)
        return replace(
            found, tools=replace(found.tools, is_stopped=lambda tool: tool.name == "orders.get")
        )

    first = new_run("orders.get", "orders.pay", away="none")
    run = Run(first.run.definition)
    answer = step(run.definition, call("orders.get"), call("orders.pay"))
    change = transitions.take_step(run, answer, 1, USAGE, Usage(), ACCOUNT, stopped(0))
    assert [made.tool for made in sent(change)] == ["pay"]

    again = transitions.on_timeout(change.run, inputs(AGAIN_S))
    assert [made.tool for made in sent(again)] == ["get"]

    repeated = transitions.on_timeout(again.run, stopped(AGAIN_S + TIMEOUT_S))
    assert sent(repeated) == [], "nor is it called again"
    ended = transitions.stopped(
        repeated.run, Cancelled(by="ops", reason="why"), stopped(AGAIN_S + TIMEOUT_S)
    )
    assert [e.call_id for e in ended.written if isinstance(e, ToolCancel)] != []
