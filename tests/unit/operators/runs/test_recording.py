"""What `answerbus record` leaves out by rule, and what it says of where it does not."""

from typing import Any

import pytest

from answerbus.cassette import Cassette
from answerbus.event import Event
from answerbus.request import InlineRef
from services.operators.runs.recording import Recording, unredacted
from tests.unit.operators.runs.events import WORKFLOW, asked, call, ended, event, step

PERSON = "ann@example.org"
DIGITS = "sha256:" + "0123456789abcdef" * 4
PROBLEM = {"path": "/to", "code": "value_error", "expected": f"not {PERSON}", "found": PERSON}


def recorded(*events: Event, rules: tuple[str, ...] = ("emails",)) -> Cassette:
    recording = Recording(WORKFLOW)
    for one in events:
        recording.take(one)
    cassette = recording.cassette({}, rules)
    assert cassette is not None
    return cassette


def test_problems_of_arguments_and_who_denied_or_cancelled_are_left_out() -> None:
    outcomes: list[Any] = [
        {"kind": "invalid_args", "problems": [PROBLEM]},
        {"kind": "denied", "by": PERSON, "reason": "no"},
        {"kind": "cancelled", "by": PERSON, "reason": "no"},
    ]
    calls = [call("r-1", 1, place) for place in range(len(outcomes))]
    ends = [ended(one["call_id"], outcome=it) for one, it in zip(calls, outcomes, strict=True)]

    cassette = recorded(asked("r-1"), step("r-1", 1, *calls), *ends)

    assert PERSON not in cassette.model_dump_json()
    (one,) = cassette.requests
    assert len(one.events) == 1 + len(outcomes)
    assert [*unredacted(cassette)] == []


@pytest.mark.parametrize("by", ["model", "provider"])
def test_who_refused_is_a_word_of_the_contract_and_stays(by: str) -> None:
    refused = event(f"refusal/by_{by}", request_id="r-1", event_id="r-1.refusal")

    (one,) = recorded(asked("r-1"), refused, rules=("member:by",)).requests

    assert one.outcome is not None
    assert one.outcome.model_dump()["by"] == by


def test_what_stays_in_definitions_and_schemas_is_named() -> None:
    schema: dict[str, Any] = {
        "type": "string",
        "examples": [PERSON],
        "properties": {"by": {"const": PERSON}},
    }
    inline = {"kind": "inline", "name": "to", "json_schema": schema}
    about = {"request_id": "r-1", "workflow_id": WORKFLOW, "answer_schema": inline}
    cassette = recorded(event("request/minimal", **about), rules=("emails", "digits"))
    assert cassette.requests[0].request.answer_schema == InlineRef(name="to", json_schema=schema)
    assert [*unredacted(cassette)] == ["emails matches in the schema of r-1, which stays as it is"]

    run = event("run/malformed_text")
    definition = run.definition.model_copy(update={"instructions": f"Ask {PERSON}."})  # type: ignore[union-attr]
    found = recorded(run.model_copy(update={"definition": definition}), rules=("emails", "digits"))
    name = found.requests[0].request.request_id
    assert [*unredacted(found)] == [
        f"emails matches in the agent's definition of {name}, which stays as it is"
    ]


def test_a_letter_about_a_bad_record_under_the_id_is_no_outcome_of_the_request() -> None:
    bad = event("dead_letter/undecodable", request_id="r-1", workflow_id=WORKFLOW)
    answer = event("result/text", request_id="r-1", workflow_id=WORKFLOW)

    (one,) = recorded(asked("r-1"), bad, answer).requests

    assert one.outcome == answer


def test_the_bytes_of_a_record_are_left_out_since_no_rule_matches_in_them() -> None:
    raw = {"base64": "YW5uQGV4YW1wbGUub3Jn", "bytes": 15, "digest": f"sha256:{'0' * 64}"}
    letter = event(
        "dead_letter/misrouted_twice",
        request_id="r-1",
        workflow_id=WORKFLOW,
        raw={**raw, "truncated": False},
    )

    (one,) = recorded(asked("r-1"), letter).requests

    assert one.outcome == letter.model_copy(update={"raw": None})


def test_digests_of_answers_stay_though_they_have_many_digits() -> None:
    answer = {"to": f"{PERSON}, 1234567"}
    failure = {"kind": "invalid", "problems": [PROBLEM]}
    prior = {"attempt": 1, "failure": failure, "answer": answer, "answer_digest": DIGITS}
    letter = event(
        "dead_letter/invalid_answer", request_id="r-1", workflow_id=WORKFLOW, prior=[prior]
    )

    (one,) = recorded(asked("r-1"), letter, rules=("emails", "digits")).requests

    assert one.prior[0].answer == {"to": "***, ***"}
    assert one.prior[0].answer_digest == DIGITS
    assert PERSON not in one.model_dump_json()


def test_of_a_run_without_steps_the_outcome_names_the_definition() -> None:
    """Its own records are gone with its end."""
    definition = event("run/malformed_text").definition  # type: ignore[union-attr]
    agent = {"name": "support", "version": 3, "digest": DIGITS}
    summary = {"agent": agent, "steps": 0, "tool_calls": 0}
    answer = event("result/text", request_id="r-1", workflow_id=WORKFLOW, run=summary)
    recording = Recording(WORKFLOW)
    for one in (asked("r-1"), answer):
        recording.take(one)

    assert recording.unknown_definitions == {DIGITS: "support"}
    cassette = recording.cassette({DIGITS: definition})
    assert cassette is not None
    assert cassette.requests[0].definition == definition
