"""Each row of the table of a run: what happens, when it may, and what is written with it."""

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from answerbus.agent import AgentRef
from answerbus.call_id import call_name
from answerbus.call_outcome import CallError
from answerbus.cause import Cancelled
from answerbus.control import Approval, ApprovalRequested
from answerbus.limits import TOOL_DELIVERIES_MAX, TOOL_RESULT_BYTES_MAX
from answerbus.private.runs import AgentDefinition, RunCallRecord, RunRecord, RunStepRecord
from answerbus.step import Step, ToolEnded
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_result import ToolProgress
from answerbus.toolset_card import ApprovalRule
from answerbus.wire import bytes_digest
from services.operators.dead_letters.effects import may_have_run
from services.text.digest import text_digest
from services.worker.core.run import transitions
from services.worker.core.run.agents import Agent, Agents
from services.worker.core.run.call_changes import Change
from services.worker.core.run.run import Run
from services.worker.core.run.tool_outcome import VALUE_DEPTH_MAX
from services.worker.lane.state.recovered_runs import RecoveredRuns
from tests.unit.worker.builders import ORIGIN, after
from tests.unit.worker.core.run_builders import (
    UNTRUSTED,
    asked,
    call,
    definition,
    inputs,
    result,
    says,
    sent,
    taken,
    thinks,
    tool,
)

TIMEOUT_S = 30.0


def ended(change: Change) -> list[tuple[str, str]]:
    """The calls that ended, with how."""
    found = (event for event in change.written if isinstance(event, ToolEnded))
    return [
        (call_name(event.call_id).rpartition(".call.")[2], event.outcome.kind) for event in found
    ]


def approval(of: Change, decision: str = "approved", **more: Any) -> Approval:
    asked_for = next(e for e in of.written if isinstance(e, ApprovalRequested))
    body = {
        "call_id": asked_for.call_id,
        "args_digest": asked_for.args_digest,
        "decision": decision,
        "by": "ops@acme",
        "reason": "why",
        "workflow_id": asked_for.workflow_id,
        "at": after(1),
    }
    return Approval.model_validate({**body, **more})


def called(**card: Any) -> Change:
    """A run whose first step calls one tool, which is as its card says."""
    return taken(Run(definition(tool(**card))), call())


def heard(change: transitions.Said) -> Change:
    assert isinstance(change, Change)
    return change


def test_a_step_is_written_with_its_calls_and_without_thoughts() -> None:
    change = taken(Run(definition()), thinks("CANARY"), says("Looking."), call(), call())

    step = change.written[0]
    assert isinstance(step, Step)
    assert step.said == ("Looking.",)
    assert [made.state for made in step.calls] == ["called", "called"]
    assert [call_name(made.call_id) for made in sent(change)] == ["r-1.call.1.0", "r-1.call.1.1"]
    assert "CANARY" not in "".join(event.model_dump_json() for event in change.written)
    kinds = [event.kind for event in change.written]
    assert kinds == ["step", "run_step", "tool_call", "run_call", "tool_call", "run_call"]


def test_what_follows_from_the_definition_alone_is_worked_out_once_for_a_run() -> None:
    before = Run(definition())
    known = before.agent, before.tools, before.described_tools

    after_step = taken(before, call()).run

    found = after_step.agent, after_step.tools, after_step.described_tools
    assert all(one is other for one, other in zip(found, known, strict=True))
    assert len(after_step.open) == 1, "what follows from the steps is not kept"


def test_thoughts_are_kept_where_a_later_prompt_may_show_them() -> None:
    change = taken(Run(definition(remember_thoughts=True)), thinks("hm"), call())

    record = change.written[1]
    assert isinstance(record, RunStepRecord)
    assert record.thoughts == ("hm",)


def test_a_call_says_where_its_result_is_to_go_and_the_run_keeps_the_digest_of_its_token() -> None:
    change = called()

    (made,) = sent(change)
    (record,) = [event for event in change.written if isinstance(event, RunCallRecord)]
    assert (made.reply.topic, made.reply.partition) == ("answerbus.tool-results.v1", 7)
    assert made.expires_at == after(TIMEOUT_S)
    assert made.reply.token not in record.model_dump_json()
    assert record.tokens == (text_digest(made.reply.token),)


def test_a_call_that_cannot_be_made_ends_with_its_step_and_is_never_sent() -> None:
    change = taken(Run(definition()), call("orders.rm"), call(order_id="x"))

    assert ended(change) == [("1.0", "unknown_tool"), ("1.1", "invalid_args")]
    assert sent(change) == []
    assert not change.run.open


def test_calls_beyond_the_limit_of_a_step_are_not_run() -> None:
    change = taken(Run(definition(calls_max=1)), call(), call())

    assert ended(change) == [("1.1", "not_run")]
    assert len(sent(change)) == 1


def test_so_many_calls_are_open_at_once_as_the_agent_allows() -> None:
    change = taken(Run(definition(parallel_max=2)), call(), call(), call())
    assert [call_name(made.call_id)[-1] for made in sent(change)] == ["0", "1"]

    change = heard(transitions.on_result(change.run, result(sent(change)[0]), inputs()))

    assert [call_name(made.call_id)[-1] for made in sent(change)] == ["2"]


def test_a_result_ends_its_call_once() -> None:
    change = called()
    (made,) = sent(change)

    after_it = heard(transitions.on_result(change.run, result(made), inputs(2)))

    assert ended(after_it) == [("1.0", "ok")]
    assert not after_it.run.open
    assert transitions.on_result(after_it.run, result(made), inputs(3)) is None


@pytest.mark.parametrize(
    "forged",
    [
        {"token": "AAAAAAAAAAAAAAAAAAAAAA=="},
        {"call_id": "r-1.call.1.7"},
        {"call_id": "r-2.call.1.0"},
    ],
)
def test_only_who_could_read_the_call_can_end_it(forged: dict[str, str]) -> None:
    change = called()

    assert transitions.on_result(change.run, result(sent(change)[0], **forged), inputs()) is None


def test_problems_that_a_tool_server_wrote_at_any_length_are_clipped() -> None:
    """The end of the call repeats them beside more: no record could hold it."""
    change = called()
    long = {"path": "/p" * 500_000, "code": "c", "expected": "e"}
    failed = {"kind": "error", "code": "invalid_args", "problems": [long]}

    after_it = heard(
        transitions.on_result(change.run, result(sent(change)[0], outcome=failed), inputs())
    )

    assert ended(after_it) == [("1.0", "invalid_args")]
    assert all(len(event.model_dump_json()) < 2_000 for event in after_it.written)


def test_a_failure_with_problems_and_a_code_of_its_own_keeps_that() -> None:
    """Its tool may have run: `invalid_args` would say that it has not."""
    change = called()
    problem = {"path": "/rows/7", "code": "refused", "expected": "an open account"}
    failed = {"kind": "error", "code": "in_part", "message": "6 are paid", "problems": [problem]}

    made = result(sent(change)[0], outcome=failed)
    run = heard(transitions.on_result(change.run, made, inputs())).run
    outcome = next(run.calls_of(run.steps[-1])).outcome
    assert outcome == CallError(code="in_part", message="6 are paid")
    assert may_have_run(outcome)


def test_a_result_that_is_too_large_is_shown_by_its_beginning() -> None:
    change = called()
    large = result(sent(change)[0], "x" * TOOL_RESULT_BYTES_MAX)

    assert ended(heard(transitions.on_result(change.run, large, inputs()))) == [
        ("1.0", "too_large")
    ]


def test_a_result_that_is_deeper_than_a_replay_can_hold_is_shown_by_its_beginning() -> None:
    deepest: JsonValue = json.loads("[" * VALUE_DEPTH_MAX + "]" * VALUE_DEPTH_MAX)
    for value, kind in ((deepest, "ok"), ([deepest], "too_large")):
        change = called()
        said = result(sent(change)[0], value)
        assert ended(heard(transitions.on_result(change.run, said, inputs()))) == [("1.0", kind)]


def test_a_result_that_is_too_large_is_written_as_json_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of nearly a record's size takes milliseconds each time."""
    change, value = called(), "x" * TOOL_RESULT_BYTES_MAX
    large, written, dumps = result(sent(change)[0], value), list[object](), json.dumps

    def counted(of: object, **more: Any) -> str:
        written.append(of)
        return dumps(of, **more)

    monkeypatch.setattr(json, "dumps", counted)
    transitions.on_result(change.run, large, inputs())
    assert written.count(value) == 1


def test_a_failure_of_a_tool_is_shown_with_its_code() -> None:
    change = called()
    outcome = {"kind": "error", "code": "not_found", "message": "no"}
    failed = result(sent(change)[0], outcome=outcome)

    (event,) = [
        event
        for event in heard(transitions.on_result(change.run, failed, inputs())).written
        if isinstance(event, ToolEnded)
    ]
    assert event.outcome.model_dump() == outcome


def test_notes_of_a_tool_are_kept_for_the_outcome() -> None:
    change = called()
    noted = result(sent(change)[0], notes=["from the archive"])

    assert heard(transitions.on_result(change.run, noted, inputs())).run.notes == (
        "from the archive",
    )


def test_a_silent_tool_is_called_again_under_the_same_id_until_its_deliveries_are_used() -> None:
    change = called()
    first = sent(change)[0]
    found = []
    for number in range(1, TOOL_DELIVERIES_MAX + 1):
        change = transitions.on_timeout(change.run, inputs(number * TIMEOUT_S))
        found.append([made.delivery for made in sent(change)])

    assert found == [[2], [3], []]
    assert ended(change) == [("1.0", "timed_out")]
    assert transitions.on_result(change.run, result(first), inputs()) is None


def test_the_result_of_an_earlier_delivery_is_taken() -> None:
    change = called()
    first = sent(change)[0]
    again = transitions.on_timeout(change.run, inputs(TIMEOUT_S))

    assert ended(heard(transitions.on_result(again.run, result(first), inputs(31)))) == [
        ("1.0", "ok")
    ]


def test_a_tool_that_runs_at_most_once_is_never_called_again() -> None:
    change = called(delivery="at_most_once")

    late = transitions.on_timeout(change.run, inputs(TIMEOUT_S))

    assert sent(late) == []
    (event,) = [event for event in late.written if isinstance(event, ToolEnded)]
    assert event.outcome.model_dump() == {"kind": "timed_out", "after_s": 30.0, "ran": "unknown"}


def test_progress_starts_the_time_out_again() -> None:
    change = called()
    (made,) = sent(change)
    body = {"call_id": made.call_id, "workflow_id": made.workflow_id, "token": made.reply.token}

    goes_on = heard(
        transitions.on_progress(change.run, ToolProgress.model_validate(body), inputs(20))
    )

    assert transitions.on_timeout(goes_on.run, inputs(20 + TIMEOUT_S)).written == ()
    assert sent(transitions.on_timeout(goes_on.run, inputs(20 + TIMEOUT_S * 1.1)))


@pytest.mark.wide
def test_progress_that_comes_all_the_time_is_written_ten_times_in_a_time_out() -> None:
    change = called()
    (made,) = sent(change)
    body = {"call_id": made.call_id, "workflow_id": made.workflow_id, "token": made.reply.token}
    progress, run = ToolProgress.model_validate(body), change.run
    written, heard_at = 0, 0.0
    for number in range(10_000):
        heard_at = number * 2 * TIMEOUT_S / 10_000
        if goes_on := transitions.on_progress(run, progress, inputs(heard_at)):
            run, written = goes_on.run, written + len(goes_on.written)

    assert 10 <= written <= 20
    assert run.due_at is not None
    assert after(heard_at + TIMEOUT_S) <= run.due_at <= after(heard_at + TIMEOUT_S * 1.1)


def test_what_needs_approval_is_not_called_before_it() -> None:
    change = called(approval="always")
    assert sent(change) == []

    yes = heard(transitions.on_approval(change.run, approval(change), inputs()))

    (made,) = sent(yes)
    assert made.approved is not None
    assert made.approved.by == "ops@acme"
    assert transitions.on_approval(yes.run, approval(change), inputs()) is None


def test_a_denied_call_ends() -> None:
    change = called(approval="always")

    no = heard(transitions.on_approval(change.run, approval(change, "denied"), inputs()))

    assert ended(no) == [("1.0", "denied")]
    assert not no.run.open


@pytest.mark.parametrize(
    "other", [{"args_digest": text_digest("others")}, {"call_id": "r-1.call.1.5"}]
)
def test_an_approval_is_for_one_call_with_its_arguments(other: dict[str, str]) -> None:
    change = called(approval="always")

    assert transitions.on_approval(change.run, approval(change, **other), inputs()) is None


def test_a_person_is_asked_once_anything_untrusted_was_read() -> None:
    of = definition(tool(approval="after_untrusted"))
    first = taken(Run(of), call())
    assert len(sent(first)) == 1
    read = heard(transitions.on_result(first.run, result(sent(first)[0]), inputs()))

    second = taken(read.run, call())

    assert sent(second) == []


@pytest.mark.parametrize("given", UNTRUSTED)
def test_a_person_is_asked_where_what_a_run_is_given_is_untrusted(given: dict[str, Any]) -> None:
    of = definition(tool(approval="after_untrusted"))

    assert sent(taken(Run(of), call(), of=asked(**given))) == []


def test_the_description_of_a_foreign_server_is_untrusted_text() -> None:
    """The model reads it before its first step."""
    guarded = tool(approval="after_untrusted")
    foreign = tool("web.search").model_copy(update={"written_by": "mcp"})

    assert len(sent(taken(Run(definition(guarded, tool("web.search"))), call()))) == 1
    assert sent(taken(Run(definition(guarded, foreign)), call())) == []


RULES: tuple[ApprovalRule, ...] = ("never", "after_untrusted", "always")


@pytest.mark.parametrize("ruled", RULES)
@pytest.mark.parametrize("announced", RULES)
def test_a_card_makes_the_rule_of_an_agent_stricter_and_never_looser(
    ruled: ApprovalRule, announced: ApprovalRule
) -> None:
    of = definition()
    agents = Agents([Agent(of, ("orders.get",), {"orders.get": ruled})])

    frozen = agents.freeze(AgentRef(name=of.name), {"orders.get": tool(approval=announced)})

    assert isinstance(frozen, AgentDefinition)
    (found,) = frozen.tools
    assert RULES.index(found.card.approval) == max(RULES.index(ruled), RULES.index(announced))


def test_a_run_that_stops_ends_its_calls_and_tells_the_tool_servers_at_work() -> None:
    change = taken(Run(definition(parallel_max=1)), call(), call())

    stopped = transitions.stopped(change.run, Cancelled(by="me", reason="why"), inputs(1))

    assert ended(stopped) == [("1.0", "cancelled"), ("1.1", "cancelled")]
    (reported,) = [event for event in stopped.written if isinstance(event, ToolCancel)]
    assert call_name(reported.call_id) == "r-1.call.1.0"


# What holds after anything.

EVENTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=24)
TOOLS = (tool("orders.get"), tool("orders.pay", delivery="at_most_once", approval="always"))


class Model:
    """A run to which anything happens, and all that was written of it."""

    def __init__(self) -> None:
        self.run = Run(definition(*TOOLS, parallel_max=2))
        self.written: list[Any] = []
        self.now_s = 0.0

    def happen(self, what: int, which: int) -> None:
        self.now_s += 7
        calls = [event for event in self.written if isinstance(event, ToolCallRecord)]
        match what:
            case 0 | 1 if not self.run.open and len(self.run.steps) < 8:
                wanted = [call("orders.pay" if (n + which) % 2 else "orders.get") for n in range(3)]
                self.take(taken(self.run, *wanted, call("orders.rm"), seconds=self.now_s))
            case 2 if calls:
                reported = result(calls[-1 - which % len(calls)])
                self.take(transitions.on_result(self.run, reported, inputs(self.now_s)))
            case 3:
                self.take(transitions.on_timeout(self.run, inputs(self.now_s)))
            case 4 | 5 if self.run.steps:
                self.decide(which, "approved" if what == 4 else "denied")
            case _:
                pass

    def decide(self, which: int, decision: str) -> None:
        asked_for = [event for event in self.written if isinstance(event, ApprovalRequested)]
        if asked_for:
            one = asked_for[-1 - which % len(asked_for)]
            reported = approval(Change(self.run, (one,)), decision)
            self.take(transitions.on_approval(self.run, reported, inputs(self.now_s)))

    def take(self, change: transitions.Said) -> None:
        if isinstance(change, Change):
            self.run = change.run
            self.written += change.written


@pytest.mark.wide
@settings(max_examples=150)
@given(EVENTS)
def test_whatever_happens_the_promises_of_a_run_hold(happenings: list[tuple[int, int]]) -> None:
    story = Model()
    for what, which in happenings:
        story.happen(what, which)
        assert sum(one.is_called for one in story.run.open) <= 2
    story.take(transitions.stopped(story.run, Cancelled(by="x", reason="y"), inputs(9_000)))

    steps = [event for event in story.written if isinstance(event, Step)]
    asked_of = [made.call_id for step in steps for made in step.calls]
    ends = [event.call_id for event in story.written if isinstance(event, ToolEnded)]
    assert sorted(ends) == sorted(asked_of), "every call ends once"
    sends = [event for event in story.written if isinstance(event, ToolCallRecord)]
    keys = [(event.call_id, event.delivery) for event in sends]
    assert len(keys) == len(set(keys)), "each delivery is sent once"
    assert {event.delivery for event in sends if event.tool == "pay"} <= {1}
    assert all(event.approved for event in sends if event.tool == "pay")
    _assert_chain([e for e in story.written if isinstance(e, Step | ToolEnded)])
    _assert_recovered(story)


def _assert_chain(chain: list[Step | ToolEnded]) -> None:
    before = None
    for event in chain:
        unhashed = event.model_dump(mode="json", exclude={"hash"})
        assert event.previous == before
        assert event.hash == bytes_digest(rfc8785.dumps(unhashed))
        before = event.hash


def _assert_recovered(story: Model) -> None:
    """What the private records say is the very run."""
    found = RecoveredRuns()
    for event in story.written:
        if isinstance(event, RunStepRecord | RunCallRecord):
            again = type(event).model_validate_json(event.model_dump_json())
            found.take(again, (), 0)
    head = RunRecord(
        request=asked(),
        body_digest=text_digest("x"),
        origin=ORIGIN,
        definition=story.run.definition,
    )
    found.take(head, (), 0)
    ((_, _, recovered),) = found.runs()
    assert recovered.steps == story.run.steps
    assert dict(recovered.calls) == dict(story.run.calls)
    assert recovered.link == story.run.link
