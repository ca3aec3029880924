"""What people decided: once each, with what came of it, from topics in any order."""

from dataclasses import replace

import pytest

from answerbus.topics import LEDGER, RETRIES, RUNS, Topic
from services.console.figures.action_rows import action_row
from services.console.state import control_actions
from services.console.state.console_state import ConsoleState
from services.console.state.control_actions import ControlActions
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.stored_examples import NOON_MS, body_of, stored


def fold(*records: Stored) -> ControlActions:
    found = ControlActions()
    for record in records:
        found.take(summarize(record))
    return found


def shown(found: ControlActions) -> list[tuple[str, str, str, bool]]:
    rows = map(action_row, found.newest())
    return [(row.what, row.subject, row.effect, row.is_bad) for row in rows]


def test_an_approval_is_one_action_with_its_effect_whichever_topic_is_read_first() -> None:
    control = body_of("approval/approved")
    approval = stored("approval/approved")
    applied = stored("control_applied/approved", control=control)

    assert shown(fold(approval)) == [
        ("approved", control["call_id"], "no worker has read it yet", True)
    ]
    for records in ([approval, applied], [applied, approval]):
        assert shown(fold(*records)) == [("approved", control["call_id"], "done", False)]
    (row,) = map(action_row, fold(approval).newest())
    assert (row.by, row.reason) == (control["by"], control["reason"])
    assert row.href == f"/workflow?id={control['workflow_id']}"


def test_denials_cancellations_and_what_had_no_effect_are_listed() -> None:
    cancel = body_of("cancel/request")
    void = {**body_of("approval/denied"), "by": "late@acme.example"}
    found = fold(
        stored("approval/denied"),
        stored("cancel/request"),
        stored("control_applied/nothing", control=void),
    )

    assert sorted(shown(found)) == sorted(
        [
            ("cancelled", cancel["request_id"], "no worker has read it yet", True),
            ("denied", void["call_id"], "no worker has read it yet", True),
            ("denied", void["call_id"], "no effect: closed, or decided before", True),
        ]
    )


@pytest.mark.parametrize("topic", [LEDGER, RETRIES, RUNS])
def test_a_record_that_an_operator_skipped_is_listed(topic: Topic) -> None:
    one = replace(stored("skipped/unreadable"), topic=topic)
    (row,) = map(action_row, fold(one).newest())

    assert (row.what, row.effect, row.href) == ("skipped", "done", None)
    assert row.subject.endswith(f"offset {body_of('skipped/unreadable')['offset']}")


def test_of_open_runs_the_console_keeps_what_was_skipped_alone() -> None:
    skip = replace(stored("skipped/unreadable"), topic=RUNS, key=b"skipped:@5")
    state = ConsoleState()
    for record in (replace(skip, key=b"r-1"), skip):
        state.take(record)

    assert len(state.control_actions.newest()) == 1
    assert state.topic_counts.total[RUNS.name].records == 2
    assert state.tail() == []


def test_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_actions, "ACTIONS_MAX", 2)
    found = fold(
        *(stored("approval/approved", NOON_MS, n, call_id=f"r.call.{n}.0") for n in range(4))
    )

    assert [action.subject for action in found.newest()] == ["r.call.2.0", "r.call.3.0"]
