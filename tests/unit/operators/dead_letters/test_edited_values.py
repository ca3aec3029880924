"""Edits of every kind: what was changed is known, and an invalid request is held back in words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerbus.dead_letter import DeadLetter, PatchOperation
from answerbus.envelope import ReceivedRequest, decode_request
from services.operators.dead_letters.edit import Edits, edited, edits_of, replacing
from services.operators.dead_letters.patch import EditFault
from services.operators.dead_letters.prepare_replay import (
    PreparedReplay,
    Rejection,
    ReplayOrder,
    prepare_replay,
)
from tests.unit.operators.dead_letters.examples import dead_letter_event
from tests.unit.worker.builders import NOW, body

SCHEMA = {"kind": "inline", "name": "n", "json_schema": {"const": 1}, "wrapped": False}


def dead_letter(**members: Any) -> DeadLetter:
    return dead_letter_event(request={"answer_schema": SCHEMA, "labels": {"a": "b"}, **members})


def replayed(found: DeadLetter, *operations: PatchOperation) -> PreparedReplay | Rejection:
    return prepare_replay(found, ReplayOrder("ops", "", Edits(operations)), NOW)


@pytest.mark.parametrize(
    ("value", "is_edited"), [(True, True), (2, True), ("1", True), (1, False), (1.0, False)]
)
def test_a_value_of_another_type_is_an_edit(value: Any, *, is_edited: bool) -> None:
    """Python takes `true` for 1; JSON does not, and takes 1.0 for 1."""
    found = replayed(dead_letter(), replacing("/answer_schema/json_schema/const", value))

    assert isinstance(found, PreparedReplay)
    assert found.request.replay is not None
    assert found.request.replay.edited is is_edited


def test_what_cannot_be_edited_cannot_become_another_type() -> None:
    """The arguments of calls that were made are in `resumed`."""
    request = {**body(), "resumed": {"steps": [{"calls": [{"args": {"n": 1}}]}]}}
    path = "/resumed/steps/0/calls/0/args/n"

    assert isinstance(edited(request, [replacing(path, value=True)]), EditFault)
    assert not isinstance(edited(request, [replacing(path, 1)]), EditFault)


def test_an_edit_of_a_replay_starts_from_what_was_edited_before() -> None:
    first = replayed(dead_letter(), replacing("/profile", "large"))
    assert isinstance(first, PreparedReplay)
    again = dead_letter_event(round=1).model_copy(update={"request": first.request})
    second = replayed(again, replacing("/labels/a", "c"))
    assert isinstance(second, PreparedReplay)

    assert (second.request.request_id, second.request.profile) == ("r-1.replay.2", "large")
    assert second.request.labels == {"a": "c"}


PATHS = st.sampled_from(
    [
        *("", "/", "/~1", "/~2", "/-", "/labels", "/labels/-", "/labels/a", "/labels/\ud7ff"),
        *("/context", "/context/instructions", "/context/facts", "/context/turns", "/prior/0"),
        *("/answer_schema", "/answer_schema/kind", "/answer_schema/json_schema", "/budget"),
        *("/budget/attempts", "/ttl_s", "/deadline", "/profile", "/agent", "/parent", "/kind"),
        *("/replay/account", "/request_id", "/workflow_id/0", "/no_such", "/prior/99999999999"),
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | PATHS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(PATHS, inner, max_size=2),
    max_leaves=4,
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": PATHS},
    optional={"value": VALUES, "from": PATHS},
)


@pytest.mark.wide
@given(st.lists(OPERATIONS, min_size=1, max_size=4))
def test_no_edit_makes_it_raise_and_what_it_sends_can_be_read(
    operations: list[dict[str, Any]],
) -> None:
    edits = edits_of(json.dumps(operations).encode())
    if isinstance(edits, EditFault):
        assert edits.reason
        return

    match prepare_replay(dead_letter(), ReplayOrder("ops", "", edits), NOW):
        case PreparedReplay(request=request):
            read = decode_request(request.model_dump_json().encode())
            assert isinstance(read, ReceivedRequest)
            assert read.request == request
            assert (request.request_id, request.workflow_id) == ("r-1.replay.1", "w-0")
        case Rejection(text=text):
            assert text
