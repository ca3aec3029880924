"""The contracts proposal, selection and specialist: what they take, and that schemas agree."""

import json
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from answerbus.answers.proposal import ACTIONS_MAX, PROPOSAL, Proposal, ProposedAction
from answerbus.answers.selection import (
    ELEMENT_ID_CHARS_MAX,
    SELECTION,
    NothingSelected,
    Selected,
)
from answerbus.answers.specialist import (
    DROPPED_OUTPUT,
    SPECIALIST,
    AskedSpecialist,
    Specialist,
    noted,
)
from answerbus.contract import Contract
from answerbus.limits import NOTE_BYTES_MAX, NOTES_MAX, REASON_BYTES_MAX
from tests.oracle import is_valid

ACTION: dict[str, JsonValue] = {"reason": "facts", "tool_name": "search", "parameters": {"q": 1}}
DONE: dict[str, JsonValue] = {"complete": True, "message": "done"}


def read(contract: Contract[Any], answer: object) -> Any:
    return contract.adapter.validate_json(json.dumps(answer), strict=True)


def codes(contract: Contract[Any], answer: object) -> list[str]:
    try:
        read(contract, answer)
    except ValidationError as error:
        return [found["type"] for found in error.errors()]
    return []


def test_a_proposal_calls_its_tool_tool_name_in_json() -> None:
    answer = DONE | {"actions": [ACTION]}
    action = ProposedAction(reason="facts", tool_name="search", parameters={"q": 1})

    assert action.tool == "search"
    assert read(PROPOSAL, answer) == Proposal(complete=True, message="done", actions=(action,))
    assert json.loads(PROPOSAL.adapter.dump_json(read(PROPOSAL, answer))) == answer
    assert is_valid(PROPOSAL.schema(), answer)


def test_a_proposal_without_actions_has_none() -> None:
    assert PROPOSAL.adapter.dump_python(read(PROPOSAL, DONE), mode="json") == DONE | {"actions": []}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (DONE | {"complete": "true"}, "bool_type"),
        (DONE | {"complete": 1}, "bool_type"),
        (DONE | {"message": None}, "string_type"),
        ({"complete": True}, "missing"),
        (DONE | {"actions": None}, "tuple_type"),
        (DONE | {"actions": [ACTION] * (ACTIONS_MAX + 1)}, "too_long"),
        (DONE | {"actions": [ACTION | {"parameters": "{}"}]}, "dict_type"),
        (DONE | {"actions": [ACTION | {"tool_name": ""}]}, "string_too_short"),
        (DONE | {"actions": [ACTION | {"reason": "é" * REASON_BYTES_MAX}]}, "too_long"),
        pytest.param(
            DONE | {"actions": [ACTION | {"tool": "search"}]},
            "extra_forbidden",
            marks=pytest.mark.skipif(
                pydantic.VERSION.startswith("2.13."),
                reason="takes a field under both of its names at once; workers have 2.14",
            ),
        ),
        (DONE | {"actions": [{"reason": "", "tool": "x", "parameters": {}}]}, "missing"),
        (DONE | {"thought": "x"}, "extra_forbidden"),
        ([DONE], "model_type"),
    ],
)
def test_what_is_no_proposal(answer: object, code: str) -> None:
    assert code in codes(PROPOSAL, answer)


@pytest.mark.parametrize(
    ("answer", "selection"),
    [
        ({"element_id": "btn-1", "error": None}, Selected(element_id="btn-1")),
        ({"element_id": "btn-1"}, Selected(element_id="btn-1")),
        ({"element_id": None, "error": "no such button"}, NothingSelected(error="no such button")),
        ({"error": "no such button"}, NothingSelected(error="no such button")),
    ],
)
def test_a_selection_is_an_element_or_an_error(
    answer: JsonValue, selection: Selected | NothingSelected
) -> None:
    assert read(SELECTION, answer) == selection
    assert is_valid(SELECTION.schema(), answer)
    assert SELECTION.adapter.dump_python(selection, mode="json").keys() == {"element_id", "error"}
    assert SELECTION.adapter.validate_python(selection) == selection


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"element_id": 3, "error": None}, "string_type"),
        ({"element_id": "", "error": None}, "string_too_short"),
        ({"element_id": "x" * (ELEMENT_ID_CHARS_MAX + 1)}, "string_too_long"),
        ({"element_id": None, "error": None}, "string_type"),
        ({"element_id": "a", "error": "b"}, "none_required"),
        ({"element_id": "a", "error": False}, "string_type"),
        ({"error": ""}, "too_short"),
        ({"element_id": "a", "why": "b"}, "extra_forbidden"),
        ({}, "missing"),
        (["a"], "model_type"),
        (None, "model_type"),
    ],
)
def test_what_is_no_selection(answer: JsonValue, code: str) -> None:
    assert code in codes(SELECTION, answer)
    assert not is_valid(SELECTION.schema(), answer)


NAMES = st.sampled_from(["element_id", "error", "success", "output", "notes", "failure_reason"])
VALUES: st.SearchStrategy[Any] = st.sampled_from([None, "", "x", 3, True, False, [], ["n"], {}])


@given(st.dictionaries(NAMES, VALUES))
def test_a_selection_is_valid_exactly_by_its_schema(answer: JsonValue) -> None:
    assert (codes(SELECTION, answer) == []) == is_valid(SELECTION.schema(), answer)


@given(st.dictionaries(NAMES, VALUES))
def test_what_a_specialist_answers_is_published_as_promised(answer: JsonValue) -> None:
    try:
        asked = SPECIALIST.asked_adapter.validate_json(json.dumps(answer), strict=True)
    except ValidationError:
        return
    published = json.loads(asked.published().model_dump_json())

    assert is_valid(SPECIALIST.asked_schema(), answer)
    assert is_valid(SPECIALIST.schema(), published)
    assert read(SPECIALIST, published) == asked.published()
    assert (published["failure_reason"] is None) == published["success"]
    assert published["output"] == (asked.output if asked.success else None)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"success": True, "failure_reason": "x"}, "failure_reason_surplus"),
        ({"success": False}, "failure_reason_missing"),
        ({"success": False, "failure_reason": ""}, "failure_reason_missing"),
        ({"success": False, "failure_reason": "x", "output": 1}, "failure_reason_missing"),
        ({"output": 1}, "missing"),
        ({"success": True, "output": 1, "rationale": ""}, "extra_forbidden"),
    ],
)
def test_what_is_never_published_as_a_specialist(answer: JsonValue, code: str) -> None:
    assert codes(SPECIALIST, answer) == [code]


def test_a_typed_specialist_has_a_typed_output() -> None:
    found = Specialist[Proposal].model_validate_json(json.dumps({"success": True, "output": DONE}))

    assert found.output == Proposal(complete=True, message="done")
    with pytest.raises(ValidationError):
        Specialist[Proposal].model_validate_json('{"success": true, "output": {"complete": 1}}')


def test_the_workers_notes_come_last_and_are_never_pushed_out() -> None:
    assert noted(("a", "b", "own"), ("own", "c", "own")) == ("a", "b", "own", "c")
    assert noted(("m",) * 99, ("own",)) == ("m",) * (NOTES_MAX - 1) + ("own",)
    assert noted((), tuple(map(str, range(99)))) == tuple(map(str, range(NOTES_MAX)))
    assert noted(("n" * 9999,), ()) == ("n" * (NOTE_BYTES_MAX - 3) + "…",)


def test_an_output_that_was_dropped_is_noted() -> None:
    asked = AskedSpecialist(success=False, output=1, notes=("n",), failure_reason="no")

    assert asked.published() == Specialist(
        success=False, notes=("n", DROPPED_OUTPUT), failure_reason="no"
    )
