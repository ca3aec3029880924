"""The tree of a run, folded from events made by hand, in any order and from any writer."""

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from rich.console import Console

from answerbus.budget import Spent
from answerbus.control import ControlApplied, InputRequested
from answerbus.event import Event
from services.operators.runs.fold import RunFold
from services.operators.runs.rendering import as_data, tree_of
from services.operators.runs.run_words import state_text
from services.operators.runs.tree import RunNode
from tests.cpu_time import cpu_time
from tests.unit.operators.runs.events import (
    BEGAN,
    approval_asked,
    asked,
    attempt,
    call,
    decided,
    ended,
    event,
    parent,
    result,
    step,
)
from tests.unit.operators.runs.large_tree import ATTEMPTS, NODES, STEPS_OF_ROOT, large_tree
from tests.unit.operators.stored_examples import body_of

FOLD_S_MAX = 0.5


def folded(events: Iterable[Event]) -> tuple[RunNode, ...]:
    fold = RunFold()
    for one in events:
        fold.take(one, BEGAN)
    return fold.runs()


def shown(run: RunNode, *, show_content: bool = False) -> str:
    console = Console(width=300, force_terminal=False)
    with console.capture() as capture:
        console.print(tree_of(run, show_content=show_content))
    return capture.get()


def test_a_tool_that_cost_something_is_part_of_what_its_run_spent() -> None:
    made = [asked("r-1", agent={"name": "support"}), step("r-1", 1, call("r-1", 1))]
    (before,) = folded([*made, ended("r-1.call.1.0")])
    (run,) = folded([*made, ended("r-1.call.1.0", micro_usd=2_500)])

    assert run.own.micro_usd == run.whole.micro_usd == before.own.micro_usd + 2_500
    assert "$0.0025" in shown(run)


def test_a_call_without_a_report_is_part_of_it_as_its_account_was_charged() -> None:
    worst = {"attempts": 1, "tokens": 9_000, "micro_usd": 40_000}
    lost = attempt("r-1", 1, outcome="retry", usage={}, charged=worst)
    (run,) = folded([asked("r-1", agent={"name": "support"}), lost, attempt("r-1", 2)])

    assert run.own == Spent(attempts=2, tokens=9_876, micro_usd=40_331)


def a_run() -> list[Event]:
    """Two steps: one call ended, one child was asked, and one call awaits approval."""
    return [
        asked("r-1", agent={"name": "support"}),
        attempt("r-1", 1, duration_ms=2_100),
        step("r-1", 1, call("r-1", 1), call("r-1", 1, 1, tool="delegate")),
        ended("r-1.call.1.0", took_ms=31),
        asked("r-1.call.1.1", parent=parent("r-1.call.1.1")),
        attempt("r-1.call.1.1", 1, outcome="result"),
        result("r-1.call.1.1", parent=parent("r-1.call.1.1")),
        ended("r-1.call.1.1"),
        attempt("r-1", 2, duration_ms=1_700),
        step("r-1", 2, call("r-1", 2, tool="orders.refund", state="awaits_approval")),
        approval_asked("r-1.call.2.0"),
    ]


def test_a_run_is_a_tree_of_steps_calls_and_children() -> None:
    (run,) = folded(a_run())

    assert (run.request_id, run.agent, run.state) == ("r-1", "support v3", "awaits_approval")
    assert [(it.n, it.attempt, it.took_ms) for it in run.steps] == [(1, 1, 2_100), (2, 2, 1_700)]
    first, delegated, refund = run.calls
    assert (first.status, first.took_ms) == ("ended", 31)
    assert first.outcome is not None
    assert first.outcome.kind == "ok"
    (child,) = delegated.children
    assert (child.request_id, child.agent, child.state) == ("r-1.call.1.1", None, "ended")
    assert refund.status == "awaits_approval"
    assert [it.call_id for it in run.awaiting] == ["r-1.call.2.0"]


def test_a_run_whose_result_is_no_longer_kept_has_ended() -> None:
    """Steps and attempts are kept for 30 days, results for 7."""
    (run,) = folded([*a_run(), attempt("r-1", 3, outcome="result", duration_ms=1_000)])

    assert (run.state, run.outcome, run.ended_as) == ("ended", None, "result")
    assert run.over is not None
    assert list(run.awaiting) == []
    assert " · result\n" in shown(run)
    assert as_data(run, show_content=False)["outcome"] == "result"


def test_it_is_shown_as_a_tree_without_what_was_said() -> None:
    (run,) = folded(a_run())
    text, whole = shown(run), shown(run, show_content=True)

    assert "r-1 support v3 · 2 steps · 3 attempts of 20" in text
    assert "waits for approval since" in text
    assert "── step 1 · attempt 1 · 2.1 s · 876 tokens · $0.0003\n" in text
    assert "── orders.get_order · ok · 31 ms\n" in text
    assert "── orders.refund · awaits approval\n" in text
    assert "answerbus approvals approve r-1.call.2.0" in text
    assert "Looking it up." not in text
    assert "4711" not in text
    assert 'said "Looking it up."' in whole
    assert 'orders.get_order {"order_id":"4711"}' in whole.replace(": ", ":")


def test_times_are_of_utc() -> None:
    (run,) = folded(a_run())

    assert run.since is not None
    assert state_text(run) == f"waits for approval since {run.since:%Y-%m-%d %H:%M:%S} UTC"


def test_programs_get_the_same_tree() -> None:
    (run,) = folded(a_run())
    data, whole = (as_data(run, show_content=show) for show in (False, True))

    assert "Looking it up." not in str(data)
    assert "4711" not in str(data["steps"])
    assert "Looking it up." in str(whole)


def test_the_order_of_events_does_not_matter_nor_does_a_repeat() -> None:
    events, whole = a_run(), folded(a_run())
    for seed in range(20):
        mixed = [*events, *events]
        random.Random(seed).shuffle(mixed)

        assert folded(mixed) == whole


def test_an_approved_call_is_called_and_a_denied_one_ends() -> None:
    (run,) = folded([*a_run(), decided("r-1.call.2.0")])
    *_, refund = run.calls
    assert (refund.status, run.state) == ("called", "waiting")
    assert "approved by kafka:ops (says ops@acme): customer phoned" in shown(run)
    assert not list(run.awaiting)

    (run,) = folded([*a_run(), decided("r-1.call.2.0", "denied"), ended("r-1.call.2.0", "denied")])
    *_, refund = run.calls
    assert (refund.status, run.state) == ("ended", "working")
    assert "denied by" in shown(run)


def test_a_run_that_ended_says_how_and_leaves_nothing_to_be_approved() -> None:
    dead_letter = event(
        "dead_letter/cancelled", request_id="r-1", dead_letter_id="r-1.dead-letter", parent=None
    )
    cancelled = event("control_applied/cancelled", requests=["r-1"])
    (run,) = folded([*a_run(), dead_letter, cancelled])

    assert run.state == "ended"
    assert not list(run.awaiting)
    text = shown(run)
    assert "dead letter: " in text
    assert "cancelled by ops@acme: order withdrawn" in text
    assert "── orders.refund · ended\n" in text


def test_a_dead_letter_about_another_record_of_that_id_ends_no_run() -> None:
    conflict = event("dead_letter/conflicting_id", request_id="r-1")
    (run,) = folded([*a_run(), conflict])

    assert run.state == "awaits_approval"


def test_a_replay_says_after_how_many_steps_it_goes_on() -> None:
    (run,) = folded([event("request/resumed")])

    assert " · 0 steps · goes on after 1 step · " in shown(run)


def test_a_call_of_unknown_fate_awaits_a_person_once_more() -> None:
    """It was approved and called before: that decision is not the one that is asked for."""
    call_id = "r-1.call.1.0"
    first = [
        asked("r-1"),
        step("r-1", 1, call("r-1", 1, state="awaits_approval")),
        approval_asked(call_id),
        decided(call_id),
    ]
    again = approval_asked(call_id, delivery=2)
    anew = approval_asked(call_id, delivery=2, after_input=1)
    found = ended(call_id, reconciled=True)

    for events, status in (
        (first, "called"),
        ([*first, again], "awaits_approval"),
        ([again, *reversed(first)], "awaits_approval"),
        ([*first, again, decided(call_id, delivery=2)], "called"),
        ([*first, again, decided(call_id, delivery=2), anew], "awaits_approval"),
        ([*first, anew, decided(call_id, delivery=2), again], "awaits_approval"),
        ([*first, again, anew, decided(call_id, delivery=2, after_input=1)], "called"),
        ([*first, again, found], "ended"),
    ):
        (run,) = folded(events)
        assert next(run.calls).status == status
    (run,) = folded([*first, again, found])
    assert "found out afterwards" in shown(run)


def test_both_arguments_are_shown_and_why_others_did_not_fit() -> None:
    call_id = "r-1.call.1.0"
    wrong = event("control_applied/invalid", control=body_of("approval/edited", call_id=call_id))
    begun = [
        asked("r-1"),
        step("r-1", 1, call("r-1", 1, args={"cents": 1999}, state="awaits_approval")),
        approval_asked(call_id),
        wrong,
    ]
    approved = event(
        "control_applied/approved", control=body_of("approval/edited", call_id=call_id)
    )
    over = ended(call_id, "edited")

    (run,) = folded(begun)
    assert "what kafka:ops wrote does not fit: " in shown(run, show_content=True)
    assert "does not fit" not in shown(run)
    for events in ([*begun, approved], [*begun, approved, over], [over, *begun]):
        (run,) = folded(events)
        text = shown(run, show_content=True)
        assert '{"cents": 1999}, changed to {"order_id": "4711", "cents": 999}' in text
        assert "changed to" not in shown(run)
    (run,) = folded([*begun, approved, over])
    assert "changed and approved by kafka:ops" in shown(run)
    assert "of the changed arguments: policy asks (otherwise)" in shown(run)
    (data,) = as_data(run, show_content=True)["steps"][0]["calls"]  # type: ignore[index]
    assert data["edited_args"] == {"order_id": "4711", "cents": 999}


def test_a_question_awaits_an_answer_and_the_tree_says_how() -> None:
    call_id = "r-1.call.1.0"
    question = event("input_requested/address", request_id="r-1", call_id=call_id)
    begun = [
        asked("r-1"),
        step("r-1", 1, call("r-1", 1, tool="ask_person", state="awaits_input")),
        question,
    ]
    (run,) = folded(begun)

    assert run.state == "awaits_input"
    assert list(run.awaiting) == [question]
    assert f"answerbus approvals answer {call_id} --value" in shown(run)
    answer = event("control_applied/answered")
    assert isinstance(answer, ControlApplied)
    given = answer.control.model_copy(update={"call_id": call_id})
    answer = answer.model_copy(update={"control": given})
    (run,) = folded([*begun, answer, ended(call_id)])
    assert list(run.awaiting) == []
    assert "answered by ops@acme" in shown(run)


def test_a_tool_asks_one_question_after_the_other_and_its_call_goes_on_in_between() -> None:
    call_id = "r-1.call.1.0"
    second = event("input_requested/by_tool", request_id="r-1", call_id=call_id)
    assert isinstance(second, InputRequested)
    first = second.model_copy(update={"number": 1})
    answer = event("control_applied/answered")
    assert isinstance(answer, ControlApplied)

    def answered(number: int) -> ControlApplied:
        said = {"call_id": call_id, "number": number}
        return answer.model_copy(update={"control": answer.control.model_copy(update=said)})

    events = [asked("r-1"), step("r-1", 1, call("r-1", 1)), first]
    states = list[str]()
    for more in (answered(1), second, answered(1), answered(2)):
        (run,) = folded(events)
        states.append(run.state)
        events.append(more)
    (run,) = folded(events)

    assert [*states, run.state] == [
        "awaits_input",
        "waiting",
        "awaits_input",
        "awaits_input",
        "waiting",
    ]


def test_plain_requests_have_no_tree() -> None:
    assert folded([asked("r-9"), attempt("r-9", 1, outcome="result"), result("r-9")]) == ()


@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_children_that_claim_to_be_their_own_ancestors_stand_by_themselves(length: int) -> None:
    """Anybody may write a request; a circle of parents must not be followed for ever."""
    names = [f"r-{n}" for n in range(length)]
    events: list[Event] = []
    for n, name in enumerate(names):
        events.append(step(name, 1))
        above = names[(n + 1) % length]
        events.append(asked(name, agent={"name": "a"}, parent=parent(f"{above}.call.1.0")))

    assert sorted(run.request_id for run in folded(events)) == sorted(names)


def test_a_child_without_a_known_parent_is_a_run_of_its_own() -> None:
    orphan = asked("r-2", agent={"name": "a"}, parent=parent("r-1.call.7.7"))
    runs = folded([*a_run(), orphan])

    assert [run.request_id for run in runs] == ["r-1", "r-2"]


def test_what_deep_chains_claim_does_not_exhaust_the_stack() -> None:
    events: list[Event] = []
    for n in range(300):
        above = {"parent": parent(f"r-{n - 1}.call.1.0")} if n else {}
        events += [step(f"r-{n}", 1), asked(f"r-{n}", agent={"name": "a"}, **above)]

    runs = folded(events)
    assert runs
    assert shown(runs[0])


def test_each_node_says_what_it_cost_and_a_run_also_what_is_below_it() -> None:
    """An attempt of the examples takes 876 tokens and $0.000331."""
    failed = attempt("r-1", 1, outcome="retry")
    events = [
        asked("r-1", agent={"name": "support"}),
        failed,
        attempt("r-1", 2),
        step("r-1", 1, call("r-1", 2, tool="delegate"), attempt=2),
        attempt("r-1.call.2.0", 1),
        step("r-1.call.2.0", 1, call("r-1.call.2.0", 1, tool="delegate")),
        attempt("r-1.call.2.0.call.1.0", 1, outcome="result"),
        attempt("r-1.call.2.0.call.1.0", 2, outcome="released", counted=False, usage={}),
        result("r-1.call.2.0.call.1.0", parent=parent("r-1.call.2.0.call.1.0")),
        result("r-1.call.2.0", parent=parent("r-1.call.2.0")),
    ]
    (root,) = folded(events)
    (middle,) = next(root.calls).children
    (leaf,) = next(middle.calls).children

    def took(attempts: int) -> Spent:
        return Spent(attempts=attempts, tokens=876 * attempts, micro_usd=331 * attempts)

    assert [(it.own, it.whole) for it in (root, middle, leaf)] == [
        (took(2), took(4)),
        (took(1), took(2)),
        (took(1), took(1)),
    ]
    assert root.steps[0].spent == took(2), "with the attempt that failed before it"
    text = shown(root)
    assert " · 3,504 tokens · $0.0013 · itself 2 attempts, 1,752 tokens, $0.0007 · " in text
    assert "step 1 · attempt 2 · 2.1 s · 1,752 tokens · $0.0007\n" in text
    assert "r-1.call.2.0.call.1.0 · 1 attempt · 876 tokens · $0.0003 · answered" in text
    data = json.loads(json.dumps(as_data(root, show_content=False)))
    below = data["steps"][0]["calls"][0]["children"][0]
    assert below["spent"]["own"] == {"attempts": 1, "tokens": 876, "micro_usd": 331}
    assert below["spent"]["whole"]["attempts"] == 2


def test_proposals_are_no_attempt_and_the_tree_says_which_one_was_chosen() -> None:
    proposed = [
        call("r-1", 1, place, tool="propose", args={"profile": name}, state="called")
        for place, name in enumerate(("fast", "default"))
    ]
    usage = {"input_tokens": 800, "output_tokens": 76, "micro_usd": 331}
    begun = [
        asked("r-1", agent={"name": "support"}),
        step("r-1", 1, *proposed, composed="propose", said=[], usage={}),
    ]
    (run,) = folded(begun)
    assert run.own == Spent(), "nothing was asked yet"
    assert "step 1 · proposals\n" in shown(run)
    assert "propose by fast · called\n" in shown(run)

    two = [attempt("r-1", number, outcome="retry") for number in (1, 2)]
    chose: dict[str, Any] = {
        "composed": "select",
        "chosen": "r-1.call.1.1",
        "said": ["Short."],
        "calls": [],
    }
    end = [
        step("r-1", 2, attempt=3, usage=usage, **chose),
        result("r-1", attempt=3, usage=usage),
    ]
    (run,) = folded([*begun, *two, *end])
    assert [it.spent.attempts for it in run.steps] == [0, 3]
    assert run.own.attempts == 3
    assert "step 2 · attempt 3" in shown(run)
    assert "chose r-1.call.1.1\n" in shown(run)
    assert "Short." not in shown(run)
    first, last = json.loads(json.dumps(as_data(run, show_content=False)))["steps"]
    assert (first["attempt"], first["composed"], last["chosen"]) == (
        None,
        "propose",
        "r-1.call.1.1",
    )


def test_what_attempts_no_longer_tell_steps_and_ends_do() -> None:
    """Attempts may be kept for less time than results are; a client that follows has none."""
    usage = {"input_tokens": 800, "output_tokens": 76, "micro_usd": 331}
    (run,) = folded(
        [
            asked("r-1", agent={"name": "support"}),
            step("r-1", 1, usage=usage),
            result("r-1", attempt=2, usage=usage),
        ]
    )

    assert run.own == run.whole == Spent(attempts=2, tokens=1_752, micro_usd=662)


def test_five_hundred_nodes_are_folded_and_drawn_in_half_a_second() -> None:
    events = list(large_tree())
    with cpu_time() as cpu:
        (run,) = folded(events)
        shown(run)

    assert NODES >= 500
    assert count(run) == NODES
    assert (run.own.attempts, run.whole.attempts) == (STEPS_OF_ROOT + 1, ATTEMPTS)
    assert cpu.is_below(FOLD_S_MAX)


def count(run: RunNode) -> int:
    """The run, its steps, their calls, and all below."""
    below = sum(count(child) for call in run.calls for child in call.children)
    return 1 + len(run.steps) + sum(1 for _ in run.calls) + below
