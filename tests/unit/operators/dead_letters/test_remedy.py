"""What to do about a dead letter, by what failed."""

import json
from typing import Any, get_args

import pytest

from answerbus.dead_letter import DeadLetter, DeadLetterError
from answerbus.explain import remedy
from answerbus.failure import Failure
from services.operators.dead_letters.remedy import remedy_of
from tests.unit.operators.dead_letters.examples import dead_letter_body
from tests.unit.operators.dead_letters.test_why import INVALID, SPENT, TIMED_OUT

OTHER = {"kind": "invalid", "problems": [{"path": "/x", "code": "type", "expected": "y"}]}
FAILURES: dict[str, dict[str, Any]] = {
    "malformed": {"position": 1, "excerpt": ""},
    "invalid": {"problems": INVALID["problems"]},
    "truncated": {"limit": 9},
    "refused": {"reason": "no"},
    "throttled": {"retry_after_s": None},
    "unavailable": {"status": 503},
    "timed_out": {"after_s": 1.0},
    "unknown": {},
}


def dead_letter(cause: dict[str, Any], *failures: dict[str, Any]) -> DeadLetter:
    prior = [{"attempt": n, "failure": failure} for n, failure in enumerate(failures, start=1)]
    return DeadLetter.model_validate_json(json.dumps(dead_letter_body(cause=cause, prior=prior)))


def test_equal_answers_need_no_larger_budget() -> None:
    reported = remedy_of(dead_letter(SPENT, OTHER, INVALID, INVALID, INVALID))

    assert reported.startswith("The last 3 attempts failed at the same place")
    assert "budget" not in reported


def test_different_answers_may_need_more_attempts() -> None:
    assert remedy_of(dead_letter(SPENT, INVALID, OTHER)).endswith("or allow more attempts.")


def test_a_reply_without_an_answer_is_not_mended_by_time() -> None:
    replied = remedy_of(dead_letter(SPENT, {"kind": "unavailable", "status": 200}))

    assert replied.startswith("The model wrote a tool call or thoughts alone")


@pytest.mark.parametrize("which", ["tokens", "micro_usd"])
def test_a_budget_that_is_smaller_than_one_call_is_not_said_to_be_spent(which: str) -> None:
    found = dead_letter({**SPENT, "which": which})

    assert "has too little left for another call" in str(found)
    assert "larger budget" in remedy_of(found)
    assert "another workflow" not in remedy_of(found)


def test_a_run_without_attempts_left_is_asked_with_more() -> None:
    agent = {"name": "support", "version": 1, "digest": f"sha256:{'0' * 64}"}
    run = {"agent": agent, "steps": 3, "tool_calls": 3}
    body = dead_letter_body(cause=SPENT, prior=[])
    of_run, alone = (
        DeadLetter.model_validate_json(json.dumps({**body, **more})) for more in ({"run": run}, {})
    )

    assert "ask with more `attempts` in its `budget`" in remedy_of(of_run)
    assert str(DeadLetterError(of_run)).endswith(remedy_of(of_run))
    assert remedy_of(of_run) != remedy_of(alone) == remedy(alone.cause)


@pytest.mark.parametrize("kind", FAILURES)
def test_each_failure_has_a_remedy_of_its_own(kind: str) -> None:
    kinds = {member.model_fields["kind"].default for member in get_args(get_args(Failure)[0])}
    assert kinds == set(FAILURES)
    fields = {
        name: remedy_of(dead_letter(SPENT, {"kind": name, **more}))
        for name, more in FAILURES.items()
    }

    assert list(fields.values()).count(fields[kind]) == 1


@pytest.mark.parametrize(
    "cause",
    [
        {"kind": "crashed_worker", "openings": 3},
        {"kind": "rejected", "status": 400, "code": None},
        {"kind": "unknown_profile"},
    ],
)
def test_what_did_not_simply_end_has_the_remedy_of_its_cause(cause: dict[str, Any]) -> None:
    found = dead_letter(cause, TIMED_OUT)

    assert remedy_of(found) == remedy(found.cause)


def test_without_any_attempt_it_is_the_cause() -> None:
    found = dead_letter({"kind": "deadline_passed"})

    assert remedy_of(found) == remedy(found.cause)
