"""The chain of a run's steps and ends of calls: whole as it was written, and each forgery found."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from answerbus.attempt import Attempt
from answerbus.envelope import encode
from answerbus.event import Event
from answerbus.request_key import RequestKey
from answerbus.step import Step, ToolEnded
from answerbus.topics import TOPIC_OF_KIND
from services.operators.audit.step_verification import RunEnd, StepVerification
from services.operators.records.stored import Stored
from services.text.digest import record_digest
from tests.unit.operators.runs.events import (
    WORKFLOW,
    approval_asked,
    attempt,
    call,
    decided,
    ended,
    result,
    step,
)

AT_MS = 1_795_262_400_000


def chained(events: Sequence[Event]) -> list[Stored]:
    """Each record with the hash of what it says, linked to the one before it of its run."""
    heads: dict[str, str] = {}
    found: list[Stored] = []
    for offset, event in enumerate(events):
        body = json.loads(encode(event).value)
        if isinstance(event, Step | ToolEnded):
            body["previous"] = heads.get(event.request_id)
            body["hash"] = heads[event.request_id] = record_digest(body)
        found.append(stored(body, offset))
    return found


def stored(body: dict[str, Any], offset: int) -> Stored:
    value = json.dumps(body).encode()
    topic = TOPIC_OF_KIND[body["kind"]]
    return Stored(topic, 0, offset, AT_MS + 1_000 * offset, b"k", value, ())


def a_run(request_id: str = "r-1") -> list[Stored]:
    """Three calls in two steps, one of them approved by a person."""
    return chained(
        [
            step(request_id, 1, call(request_id, 1), call(request_id, 1, 1)),
            ended(f"{request_id}.call.1.1"),
            ended(f"{request_id}.call.1.0", "timed_out"),
            step(request_id, 2, call(request_id, 2)),
            approval_asked(f"{request_id}.call.2.0"),
            decided(f"{request_id}.call.2.0"),
            ended(f"{request_id}.call.2.0"),
        ]
    )


def verified(
    records: Sequence[Stored],
    *,
    attempts: Sequence[int] = (1, 2),
    claimed: tuple[int, int] | None = (2, 3),
    was_cut: bool = False,
    workflow_id: str | None = None,
) -> StepVerification:
    verification = StepVerification(was_cut, workflow_id)
    for number in attempts:
        one = attempt("r-1", number)
        assert isinstance(one, Attempt)
        verification.became_step(one, stored(json.loads(encode(one).value), number))
    for record in records:
        verification.take(record)
    if claimed is not None:
        terminal = stored(json.loads(encode(result("r-1")).value), 50)
        run = RunEnd(terminal.place, terminal.at_ms, *claimed)
        verification.claim(RequestKey(WORKFLOW, "r-1"), run)
    verification.end(attempts_begin_at_ms=None)
    return verification


def kinds(records: Sequence[Stored], **more: Any) -> list[str]:
    return [found.kind for found in verified(records, **more).findings]


def changed(record: Stored, *, rehash: bool = False, **members: Any) -> Stored:
    body = {**json.loads(record.value or b""), **members}
    if rehash:
        body["hash"] = record_digest(body)
    return replace(record, value=json.dumps(body).encode())


def test_what_was_written_is_whole() -> None:
    found = verified(a_run())

    assert found.findings == []
    assert (found.steps, found.runs) == (2, 1)
    assert found.is_settled()


def test_runs_of_one_partition_have_chains_of_their_own() -> None:
    first, other = a_run(), a_run("r-2")
    mixed = [record for pair in zip(first, other, strict=True) for record in pair]
    verification = StepVerification(was_cut=False)
    for record in mixed:
        verification.take(record)

    assert verification.findings == []
    assert verification.runs == 2


@pytest.mark.parametrize("place", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("fault", ["changed", "changed and hashed again", "missing", "doubled"])
def test_a_changed_missing_or_doubled_record_is_found(place: int, fault: str) -> None:
    records = a_run()
    match fault:
        case "changed":
            records[place] = changed(records[place], at="2026-11-22T10:00:00.000Z")
        case "changed and hashed again":
            later = "2026-11-22T10:00:00.000Z"
            records[place] = changed(records[place], rehash=True, at=later)
        case "missing":
            del records[place]
        case _:
            records.insert(place, records[place])
    found = verified(records)

    if fault == "changed and hashed again" and place == 6:
        assert found.findings == []  # the last one: see docs/audit.md, what it cannot see
    else:
        assert len(found.findings) == 1, "of each run the first break"


def test_each_kind_of_break_is_named() -> None:
    records = a_run()
    foreign = changed(records[6], rehash=True, call_id="r-1.call.9.9")
    numbered = changed(records[3], rehash=True, n=3)
    no_json = replace(records[1], value=b'{"kind":"tool_ended",')
    no_step = replace(records[1], value=b'{"kind":"tool_ended"}')

    assert kinds([changed(records[0], said=["forged"]), *records[1:]]) == ["changed"]
    assert kinds([*records, records[6]]) == ["twice"]
    assert kinds(records[1:]) == ["link"]
    assert kinds([*records[:6], foreign]) == ["call"]
    assert kinds([*records[:3], numbered, *records[4:]]) == ["step_number"]
    assert kinds(records[:6]) == ["no_step"]
    assert kinds(records, claimed=(3, 3)) == ["no_step"]
    assert kinds([*records[:1], no_json, *records[2:]]) == ["unreadable", "link"]
    assert kinds([*records[:1], no_step, *records[2:]]) == ["unreadable", "link"]


def test_a_call_that_ends_twice_is_found() -> None:
    records = a_run()
    again = json.loads(records[1].value or b"")
    again["previous"] = json.loads(records[6].value or b"")["hash"]
    again["hash"] = record_digest(again)

    assert kinds([*records, stored(again, 7)]) == ["call"]


def test_steps_and_attempts_answer_for_each_other() -> None:
    assert kinds(a_run(), attempts=(1, 2, 3), claimed=None) == ["no_step"]
    assert kinds([], attempts=(1,), claimed=None) == ["no_step"]
    assert kinds([], attempts=(), claimed=(2, 3)) == ["no_step"]
    assert kinds(a_run(), attempts=(1,), claimed=None) == ["no_attempt"]


def test_an_attempt_that_is_read_after_its_step_answers_for_it() -> None:
    verification = StepVerification(was_cut=False)
    for record in a_run():
        verification.take(record)
    assert not verification.is_settled()
    for number in (1, 2):
        one = attempt("r-1", number)
        assert isinstance(one, Attempt)
        verification.became_step(one, stored(json.loads(encode(one).value), number))

    assert verification.is_settled()


def test_what_retention_took_is_no_break() -> None:
    records = a_run()

    for kept in range(1, len(records)):
        assert kinds(records[kept:], was_cut=True, attempts=(), claimed=None) in (
            [],
            ["no_attempt"],  # where the second step is still there
        )
    assert kinds(records[4:], was_cut=True, attempts=(1, 2)) == []
    assert kinds([], was_cut=True, attempts=(1, 2)) == []
    # A record that is missing behind the cut is a break all the same.
    assert kinds([*records[2:3], *records[6:]], was_cut=True, attempts=(1, 2)) == ["link"]


def test_of_other_workflows_nothing_is_said_if_one_is_named() -> None:
    records = [changed(record, workflow_id="another") for record in a_run()]

    assert kinds(records, workflow_id="order-4711", attempts=(), claimed=None) == []
    assert kinds(records, attempts=(), claimed=None) == ["changed"]


@pytest.mark.parametrize(
    ("changes", "by", "doubt"),
    [
        ({}, "kafka:ops", None),
        ({}, "unproved:root", "who approved was not proved"),
        ({"effect": "nothing"}, "unproved:root", None),
        ({"effect": "nothing", "is_misplaced": True}, "kafka:ops", "not on the approvals topic"),
    ],
)
def test_approvals_that_were_not_proved_or_not_allowed_are_named(
    changes: dict[str, Any], by: str, doubt: str | None
) -> None:
    body = json.loads(encode(decided("r-1.call.1.0")).value)
    body["control"]["by"] = by
    found = StepVerification(was_cut=False)
    found.take(stored({**body, **changes}, 0))

    assert found.findings == []
    assert [why.rpartition(": ")[2].partition(",")[0] for why in found.doubtful.values()] == (
        [doubt] if doubt else []
    )
