"""The tree of a run, folded from events made by hand, in any order and from any writer."""

import random
import time
from collections.abc import Iterable

import pytest
from rich.console import Console

from answerbus.event import Event
from services.operators.runs.fold import RunFold
from services.operators.runs.rendering import as_data, tree_of
from services.operators.runs.tree import RunNode
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

FOLD_S_MAX = 0.5  # 500 nodes; with room for a busy machine, below
NODES = 500


def folded(events: Iterable[Event]) -> tuple[RunNode, ...]:
    fold = RunFold()
    for one in events:
        fold.take(one, BEGAN)
    return fold.runs()


def shown(run: RunNode, *, show_content: bool = False) -> str:
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        console.print(tree_of(run, show_content=show_content))
    return capture.get()


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


def test_it_is_shown_as_a_tree_without_what_was_said() -> None:
    (run,) = folded(a_run())
    text, whole = shown(run), shown(run, show_content=True)

    assert "r-1 support v3 · 2 steps · 3 attempts of 20" in text
    assert "waits for approval since" in text
    assert "── step 1  attempt 1  2.1 s\n" in text
    assert "── orders.get_order  ok  31 ms\n" in text
    assert "── orders.refund  awaits approval\n" in text
    assert "answerbus approvals approve r-1.call.2.0" in text
    assert "Looking it up." not in text
    assert "4711" not in text
    assert 'said "Looking it up."' in whole
    assert 'orders.get_order {"order_id":"4711"}' in whole.replace(": ", ":")


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
    assert "approved by ops@acme: customer phoned" in shown(run)
    assert not list(run.awaiting)

    (run,) = folded([*a_run(), decided("r-1.call.2.0", "denied"), ended("r-1.call.2.0", "denied")])
    *_, refund = run.calls
    assert (refund.status, run.state) == ("ended", "working")
    assert "denied by" in shown(run)


def test_a_run_that_ended_says_how_and_leaves_nothing_to_be_approved() -> None:
    letter = event(
        "dead_letter/cancelled", request_id="r-1", dead_letter_id="r-1.dead-letter", parent=None
    )
    cancelled = event("control_applied/cancelled", requests=["r-1"])
    (run,) = folded([*a_run(), letter, cancelled])

    assert run.state == "ended"
    assert not list(run.awaiting)
    text = shown(run)
    assert "dead letter: " in text
    assert "cancelled by ops@acme: order withdrawn" in text
    assert "── orders.refund  ended\n" in text


def test_a_letter_about_another_record_of_that_id_ends_no_run() -> None:
    conflict = event("dead_letter/conflicting_id", request_id="r-1")
    (run,) = folded([*a_run(), conflict])

    assert run.state == "awaits_approval"


def test_a_replay_says_after_how_many_steps_it_goes_on() -> None:
    (run,) = folded([event("request/resumed")])

    assert " · 0 steps · goes on after 1 step · " in shown(run)


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


def test_a_child_of_nobody_stands_by_itself() -> None:
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


def test_five_hundred_nodes_are_folded_in_half_a_second() -> None:
    events: list[Event] = [asked("r-1", agent={"name": "support"})]
    for n in range(1, NODES // 5 + 1):
        calls = [call("r-1", n, place) for place in range(4)]
        events += [attempt("r-1", n), step("r-1", n, *calls)]
        events += [ended(one["call_id"]) for one in calls]

    took: list[float] = []
    for _ in range(3):
        began = time.process_time()
        (run,) = folded(events)
        shown(run)
        took.append(time.process_time() - began)

    assert sum(1 + len(one.calls) for one in run.steps) == NODES
    assert min(took) < FOLD_S_MAX
