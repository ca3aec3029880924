"""Every answer of the corpus `plan_proposal`: no escape validates, every honest answer does."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from answerbus.answers.plan_proposal import AskedPlanProposal
from tests.corpora import own_cases, raw

ADAPTER: TypeAdapter[Any] = TypeAdapter(AskedPlanProposal)
SCHEMA = Draft202012Validator(ADAPTER.json_schema())


def answers(expect: str) -> list[Any]:
    """The texts of the cases that expect this, each under its id."""
    return [
        pytest.param(raw(case), id=case["id"])
        for case in own_cases().plan_proposals()
        if case["expect"] == expect
    ]


@pytest.mark.parametrize("raw", answers("escape"))
def test_an_escape_never_validates(raw: bytes) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_json(raw, strict=True)


@pytest.mark.parametrize("raw", answers("ok"))
def test_a_valid_answer_keeps_its_data_and_satisfies_the_schema(raw: bytes) -> None:
    data = json.loads(raw)

    assert ADAPTER.dump_python(ADAPTER.validate_json(raw, strict=True), mode="json") == data
    SCHEMA.validate(data)


@pytest.mark.parametrize("raw", answers("judgement"))
def test_what_authors_differ_on_raises_nothing_but_a_validation_error(raw: bytes) -> None:
    try:
        proposal = ADAPTER.validate_json(raw, strict=True)
    except ValidationError:
        return
    # The last of doubled names wins here and in Python's own reader.
    assert ADAPTER.dump_python(proposal, mode="json") == json.loads(raw)
