"""The auditor finds each broken promise of runs in a history made by hand: that one, no other."""

import pytest

from tests.chaos.audit.reading import deeds_of
from tests.chaos.auditor import audit, summary
from tests.chaos.by_hand import broken_runs, broken_traces
from tests.chaos.by_hand.broken import BrokenRun
from tests.chaos.by_hand.run_history_builder import GET, PAY, RunHistoryBuilder

pytestmark = pytest.mark.wide

HISTORIES = (broken_runs, broken_traces)
BROKEN = [b for told in HISTORIES for b in vars(told).values() if isinstance(b, BrokenRun)]


def clean() -> RunHistoryBuilder:
    """Steps, calls of both kinds, a delivery that is lost, a call that times out."""
    builder = RunHistoryBuilder()
    builder.begin("r")
    builder.step("r", 1, GET, PAY)
    builder.carry_out("r", "1.1", PAY)
    builder.deliver("r", "1.0")
    builder.carry_out("r", "1.0")
    builder.spend("r", 2)
    builder.call("r", 2, "never")
    builder.settle("r", 2, "unknown", failure="unknown", worker="two")
    builder.args = {"order_id": "4712"}
    builder.step("r", 3, GET)
    builder.deliver("r", "3.0")
    builder.close_call("r", "3.0", outcome={"kind": "timed_out", "after_s": 8.0, "ran": "unknown"})
    builder.do("r", "3.0")
    builder.answer("r", "3.0")  # late, and dropped
    builder.finish("r", 4)
    return builder


def test_a_run_that_keeps_every_promise_is_clean() -> None:
    history = clean().history()

    assert audit(history) == []
    reported = summary(history)
    assert "1 runs, 2 steps, 3 tool calls (2 ok, 1 timed_out), 4 deliveries" in reported
    assert "0 effects at most once doubled, 0 fates found out" in reported
    assert "1 calls of models asked again (1 cut" in reported


@pytest.mark.parametrize("broken", BROKEN, ids=[broken.name for broken in BROKEN])
def test_a_broken_promise_is_found(broken: BrokenRun) -> None:
    builder = RunHistoryBuilder()

    broken.tell(builder)

    violations = audit(builder.history())
    assert [(v.promise, v.about) for v in violations] == [(broken.promise, broken.about)]
    assert broken.words in violations[0].text


def test_each_promise_of_runs_that_topics_show_has_been_broken() -> None:
    expected = {f"A{n}" for n in (1, 2, *range(4, 10), 12, 13, 14, 16)} | {"T1"}

    assert {b.promise for b in BROKEN} == expected


def test_a_deed_without_an_end_is_one_whose_process_died() -> None:
    fields = {"call_id": "c", "delivery": 1, "tool": "once", "pid": 7, "at": "2026-11-21T09:00:00Z"}
    lines = [
        {**fields, "event": "start", "run": "a"},
        {**fields, "event": "start", "run": "b"},
        {**fields, "event": "end", "run": "b"},
    ]

    assert [deed.ended is None for deed in deeds_of(lines)] == [True, False]
