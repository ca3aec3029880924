"""A timeline as rows: durations between them, and what is said again told once."""

import json
from typing import Any

from services.console.views.timeline_rows import SAME, TimelineRow, timeline_rows
from services.operators.timeline.timeline import timeline
from tests.unit.operators.stored_examples import body_of, stored

PROBLEM = {"path": "/actions/0/args", "code": "json_text", "expected": "a JSON text " * 10}
INVALID = {"kind": "invalid", "problems": [PROBLEM]}


def rows(*failures: dict[str, Any]) -> list[TimelineRow]:
    records = [
        stored(
            "attempt/retry",
            offset=n,
            attempt=n,
            failure=failure,
            started_at=f"2026-11-21T12:00:{10 * n:02d}.250Z",
        )
        for n, failure in enumerate(failures, start=1)
    ]
    return list(timeline_rows(timeline(body_of("attempt/retry")["workflow_id"], records)))


def test_a_repeated_long_problem_is_shown_once() -> None:
    found = rows(INVALID, INVALID, {"kind": "unknown"}, INVALID)

    assert [row.text.endswith(SAME) for row in found] == [False, True, False, True]
    assert PROBLEM["expected"].strip() in found[0].text
    assert "attempt 2 by" in found[1].text
    assert json.dumps(PROBLEM["path"]) not in found[1].text


def test_what_is_short_is_shown_each_time() -> None:
    found = rows({"kind": "unavailable", "status": 503}, {"kind": "unavailable", "status": 503})

    assert [row.text.endswith(SAME) for row in found] == [False, False]


def test_each_row_says_how_long_after_the_one_before() -> None:
    found = rows(INVALID, INVALID, INVALID)
    gaps = [row.after_ms for row in found]

    assert gaps == [None, 10_000, 10_000]
    assert list(timeline_rows([])) == []
