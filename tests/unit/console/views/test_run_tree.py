"""Runs as trees under an axis of time: what each step and call took, and what it waited for."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from answerbus.envelope import encode
from answerbus.event import Event
from answerbus.topics import TOPIC_OF_KIND
from services.console.views.run_tree import LINES_SHOWN, RunTree, trees
from services.console.views.run_waits import SHOWN_SHARE
from services.operators.records.decoded import decoded
from services.operators.records.stored import Stored
from tests.unit.operators.runs.events import (
    BEGAN,
    approval_asked,
    asked,
    at,
    attempt,
    call,
    decided,
    ended,
    parent,
    result,
    step,
)

BEGAN_MS = int(BEGAN.timestamp() * 1000)
SECRET = "said-in-confidence"


def drawn(*events: Event, now_s: float = 100, operator: bool = True) -> tuple[RunTree, ...]:
    stored = [
        Stored(TOPIC_OF_KIND[one.kind], 0, offset, BEGAN_MS, b"k", encode(one).value, ())
        for offset, one in enumerate(events)
    ]
    return trees(map(decoded, stored), BEGAN + timedelta(seconds=now_s), operator=operator)


def bars(tree: RunTree) -> list[tuple[str, list[str]]]:
    lines = (tree.head, *tree.folded, *tree.shown)
    return [(line.kind, [bar.kind for bar in line.bars]) for line in lines]


def a_run() -> list[Event]:
    """A step with three calls: one is answered, one fails, one was approved and is asked below."""
    return [
        asked("r-1", agent={"name": "support"}),
        attempt("r-1", 1, duration_ms=4_000),
        step(
            "r-1",
            1,
            call("r-1", 1, args={"order": SECRET}),
            call("r-1", 1, 1, tool="orders.refund", state="awaits_approval"),
            call("r-1", 1, 2, tool="delegate"),
            second=10,
        ),
        ended("r-1.call.1.0", took_ms=31, at=at(20)),
        approval_asked("r-1.call.1.1", at=at(10)),
        decided("r-1.call.1.1", at=at(40)),
        ended("r-1.call.1.1", "error", at=at(60)),
        asked("r-1.call.1.2", parent=parent("r-1.call.1.2")),
    ]


def test_steps_calls_and_children_have_their_time_on_one_axis() -> None:
    (tree,) = drawn(*a_run())

    assert bars(tree) == [
        ("run", ["running"]),
        ("wait", ["waiting"]),
        ("step", ["step"]),
        ("call", ["result"]),
        ("call", ["approval", "failed"]),
        ("call", ["running"]),
        ("run", ["running"]),
        ("wait", ["approval", "tools"]),
    ]
    assert tree.span == "1 min 40 s"
    head, (queued, a_step, ok, refund, delegated, _, waited) = tree.head, tree.shown
    assert queued.text == "waited 6.0 s: its turn"
    assert waited.text == "waited 1 min 30 s: approval 30 s, tools 1 min"
    assert [(bar.x, bar.width) for bar in waited.bars] == [(10, 30), (40, 60)]
    assert (head.bars[0].x, head.bars[0].width) == (0, 100)
    assert (a_step.bars[0].x, a_step.bars[0].width) == (6, 4)
    assert (ok.bars[0].x, ok.bars[0].width) == (10, 10)
    assert [(bar.x, bar.width) for bar in refund.bars] == [(10, 30), (40, 20)]
    assert "waits for approval, 30 s" in refund.bars[0].label
    assert delegated.bars[0].x + delegated.bars[0].width == 100
    assert tree.kinds == {"waiting", "running", "step", "result", "approval", "failed", "tools"}


def test_what_awaits_a_person_waits_until_now_and_can_be_decided() -> None:
    (tree,) = drawn(*a_run()[:5])
    refund = tree.shown[3]

    assert [bar.kind for bar in refund.bars] == ["approval"]
    assert refund.bars[0].x + refund.bars[0].width == 100
    assert refund.awaits
    assert refund.awaits.call_id == "r-1.call.1.1"
    assert tree.head.open_id == "r-1"


def test_a_run_that_ended_has_the_colour_of_its_outcome_and_no_open_calls() -> None:
    (tree,) = drawn(*a_run()[:4], result("r-1", finished_at=at(50)))

    assert tree.head.bars[0].kind == "result"
    assert tree.head.open_id is None
    assert [kinds for kind, kinds in bars(tree) if kind == "call"] == [
        ["result"], ["released"], ["released"],
    ]  # fmt: skip


def test_a_long_run_shows_its_beginning_and_its_newest_lines() -> None:
    steps = [step("r-1", n, call("r-1", n), second=n) for n in range(1, 41)]
    (tree,) = drawn(asked("r-1", agent={"name": "support"}), *steps)

    assert tree.head.text.startswith("r-1 support v3")
    assert len(tree.shown) == LINES_SHOWN
    assert len(tree.folded) == 81 - LINES_SHOWN
    assert tree.shown[-3].text.startswith("step 40")
    assert tree.shown[-1].text == "waited 1 min: tools"


@pytest.mark.parametrize("operator", [True, False])
def test_labels_of_bars_hold_nothing_that_was_said(*, operator: bool) -> None:
    (tree,) = drawn(*a_run(), operator=operator)
    lines: Sequence[str] = [line.text for line in (tree.head, *tree.shown)]
    labels = [bar.label for line in (tree.head, *tree.shown) for bar in line.bars]

    assert (SECRET in " ".join(lines)) == operator
    assert SECRET not in " ".join(labels)


@pytest.mark.parametrize("now_s", [-1_000, 0, 12])
def test_clocks_that_disagree_make_no_bar_backwards(now_s: float) -> None:
    for count in range(1, len(a_run()) + 1):
        for tree in drawn(*a_run()[:count], now_s=now_s):
            for line in (tree.head, *tree.shown):
                assert all(bar.width >= 0 and 0 <= bar.x <= 100 for bar in line.bars)


def test_nothing_is_drawn_where_there_is_no_run() -> None:
    assert drawn(asked("plain")) == ()


def test_early_calls_that_took_long_are_not_folded_away() -> None:
    events = [asked("r-1", agent={"name": "support"})]
    for n in range(1, LINES_SHOWN + 1):
        events.append(step("r-1", n, call("r-1", n), second=10 if n == 1 else 80 + n))
        events.append(ended(f"r-1.call.{n}.0", at=at(75 if n == 1 else 81 + n)))
    (tree,) = drawn(*events, now_s=81 + LINES_SHOWN)

    queued, asked_for, waited, *_ = tree.shown
    assert (queued.text, waited.text) == (
        "waited 10 s: its turn",
        "waited 1 min 12 s: tools 1 min 5 s, its turn 7.0 s",
    )
    assert asked_for.kind == "call"
    assert asked_for.bars[0].width > 50
    assert len(tree.shown) == LINES_SHOWN
    assert len(tree.folded) + len(tree.shown) == 2 * LINES_SHOWN + 2


def test_what_a_provider_makes_a_run_wait_for_has_a_row() -> None:
    def failed(number: int, kind: str, second: float) -> Event:
        failure = {"kind": kind, "status": None, "retry_after_s": 1, "after_s": 1}
        more = {"outcome": "retry", "started_at": at(second), "duration_ms": 1_000}
        return attempt("r-1", number, failure=failure, **more)

    (tree,) = drawn(
        asked("r-1", agent={"name": "support"}),
        failed(1, "throttled", 0),
        failed(2, "unavailable", 11),
        failed(3, "timed_out", 32),
        attempt("r-1", 4, started_at=at(43), duration_ms=7_000),
        step("r-1", 1, second=50, attempt=4),
        ended("r-1.call.1.0", at=at(51)),
        result("r-1", finished_at=at(52)),
    )

    assert [line.text for line in tree.shown if line.kind == "wait"] == [
        "waited 40 s: throttled by the provider 10 s, provider away 20 s, back-off 10 s"
    ]


def test_a_run_has_a_bounded_number_of_rows_of_waiting() -> None:
    steps = [step("r-1", n, call("r-1", n), second=100 * n) for n in range(1, 101)]
    (tree,) = drawn(asked("r-1", agent={"name": "support"}), *steps, now_s=10_100)

    assert sum(line.kind == "wait" for line in (*tree.folded, *tree.shown)) <= 1 / SHOWN_SHARE
