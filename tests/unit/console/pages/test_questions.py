"""Questions of runs on the console's pages: their forms, who may answer, and what does not fit."""

import json
from typing import Any

import pytest

from answerbus.control import Input, InputRequested
from services.console.views.input_form import MEMBERS_MAX
from services.operators.records.stored import Stored
from tests.unit.console.context import APPROVER, NIGHT, OPERATOR, VIEWER, site
from tests.unit.console.pages.test_runs import of, post, text_of, written
from tests.unit.operators.runs.events import WORKFLOW, asked, call, event, step

CALL = "r-1.call.1.0"
SAID = "what-was-asked-in-confidence"
SCRIPT = "\"'><script>alert(1)</script>"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "street": {"type": "string", "description": SCRIPT},
        "floor": {"type": "integer"},
        "lift": {"type": "boolean"},
        "kind": {"enum": ["flat", "house"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["street"],
    "additionalProperties": False,
}
OF_CALL = {"workflow": WORKFLOW, "call": CALL}
FILLED = {"m0": "High Street", "m1": "3", "m2": "true", "m3": '"flat"', "m4": '["new"]'}


def a_question(schema: dict[str, Any] = SCHEMA) -> list[Stored]:
    question = event(
        "input_requested/address",
        request_id="r-1",
        call_id=CALL,
        question=f"{SAID} {SCRIPT}",
        json_schema=schema,
    )
    assert isinstance(question, InputRequested)
    waiting = call("r-1", 1, tool="ask_person", state="awaits_input")
    return of(asked("r-1", agent={"name": "support"}), step("r-1", 1, waiting), question)


@pytest.mark.parametrize("path", ["/runs", f"/workflow?id={WORKFLOW}"])
@pytest.mark.parametrize("token", [OPERATOR, NIGHT, APPROVER])
async def test_who_may_answer_sees_the_question_and_a_field_for_each_member(
    path: str, token: str
) -> None:
    async with site(*a_question()) as here:
        text = await text_of(here, path, token)

    assert SAID in text
    assert 'action="/runs/answer"' in text
    assert all(f'name="m{number}"' in text for number in range(5))
    assert "<script>alert" not in text


@pytest.mark.parametrize("path", ["/runs", f"/workflow?id={WORKFLOW}"])
async def test_viewers_see_that_there_is_a_question_alone(path: str) -> None:
    async with site(*a_question()) as here:
        text = await text_of(here, path, VIEWER)
        assert await post(here, "/runs/answer", {**OF_CALL, **FILLED}, VIEWER) == 403
        assert written(here) == []

    assert SAID not in text
    assert "/runs/answer" not in text


async def test_an_approver_answers_in_their_own_name_and_may_do_nothing_else() -> None:
    async with site(*a_question()) as here:
        form = {"request": "r-1", "workflow": WORKFLOW, "reason": "enough"}
        assert await post(here, "/runs/cancel", form, APPROVER) == 403
        assert await post(here, "/runs/answer", {**OF_CALL, **FILLED}, APPROVER) == 303
        (control,) = written(here)

    assert isinstance(control, Input)
    assert (control.call_id, control.by, control.workflow_id) == (CALL, "ann@acme", WORKFLOW)
    assert control.value == {
        "street": "High Street",
        "floor": 3,
        "lift": True,
        "kind": "flat",
        "tags": ["new"],
    }


async def test_a_question_of_a_tool_says_whose_words_it_has_and_may_be_declined() -> None:
    question = event("input_requested/by_tool", request_id="r-1", call_id=CALL)
    waiting = call("r-1", 1, tool="orders.build")
    events = of(asked("r-1", agent={"name": "support"}), step("r-1", 1, waiting), question)
    declined = {**OF_CALL, "number": "2", "declined": "yes"}
    async with site(*events) as here:
        text = await text_of(here, "/runs")
        assert "The server of orders.build asks" in text
        assert 'name="number" value="2"' in text
        assert await post(here, "/runs/answer", {**declined, "number": "1"}) == 409
        assert await post(here, "/runs/answer", declined) == 303
        (control,) = written(here)
    async with site(*a_question()) as here:
        assert await post(here, "/runs/answer", {**OF_CALL, "declined": "yes"}) == 303
        (of_model,) = written(here)

    assert isinstance(control, Input)
    assert (control.value, control.number) == (None, 2)
    assert isinstance(of_model, Input)
    assert of_model.value is not None


async def test_what_may_be_left_out_is_left_out() -> None:
    async with site(*a_question()) as here:
        form = {**OF_CALL, "m0": "High Street", "m1": "", "m2": "", "m3": "", "m4": ""}
        assert await post(here, "/runs/answer", form) == 303
        (control,) = written(here)

    assert isinstance(control, Input)
    assert control.value == {"street": "High Street"}


@pytest.mark.parametrize(
    "wrong", [{"m1": "three"}, {"m1": "1e400"}, {"m3": '"castle"'}, {"m4": "new"}, {"m4": "[1]"}]
)
async def test_an_answer_that_does_not_fit_is_not_written(wrong: dict[str, str]) -> None:
    async with site(*a_question()) as here:
        assert await post(here, "/runs/answer", {**OF_CALL, **FILLED, **wrong}) == 422
        assert written(here) == []


async def test_an_answer_to_another_call_is_not_written() -> None:
    async with site(*a_question()) as here:
        form = {**OF_CALL, **FILLED, "call": "r-1.call.9.0"}
        assert await post(here, "/runs/answer", form) == 409
        decision = {**OF_CALL, "digest": "x", "decision": "approved", "reason": "why"}
        assert await post(here, "/runs/decide", decision) == 409
        assert written(here) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"m{number}": {} for number in range(MEMBERS_MAX + 1)}},
        {"type": "array", "items": {"type": "integer"}},
        {"properties": {}},
        {"properties": 1},
        {},
    ],
)
async def test_what_has_no_form_is_answered_as_json(schema: dict[str, Any]) -> None:
    value: Any = [1] if schema.get("type") == "array" else {"m1": 1}
    async with site(*a_question(schema)) as here:
        assert 'name="value"' in await text_of(here, "/runs")
        if schema != {"properties": 1}:  # which is no schema: no worker would have taken it
            form = {**OF_CALL, "value": json.dumps(value)}
            assert await post(here, "/runs/answer", form) == 303
            (control,) = written(here)
            assert isinstance(control, Input)
            assert control.value == value
