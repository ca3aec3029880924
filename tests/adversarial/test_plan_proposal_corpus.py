"""Every answer of the corpus `plan_proposal`: no escape validates, every honest answer does."""

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from answerbus.answers.plan_proposal import AskedPlanProposal

CORPORA = Path(os.getenv("CORPORA_DIR") or Path(__file__).parents[2].parent / "shared" / "corpora")
ADAPTER: TypeAdapter[Any] = TypeAdapter(AskedPlanProposal)
SCHEMA = Draft202012Validator(ADAPTER.json_schema())

if not (CORPORA / "load.py").exists():
    pytest.skip(
        f"no corpora at {CORPORA}; set CORPORA_DIR to their folder", allow_module_level=True
    )


def reader() -> Any:
    """The corpora's own loader."""
    spec = importlib.util.spec_from_file_location("corpora_load", CORPORA / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers(expect: str) -> list[Any]:
    """The texts of the cases that expect this, each under its id."""
    load = reader()
    return [
        pytest.param(load.raw(case), id=case["id"])
        for case in load.plan_proposals()
        if case["expect"] == expect
    ]


@pytest.mark.parametrize("raw", answers("escape"))
def test_an_escape_never_validates(raw: bytes) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_json(raw, strict=True)


@pytest.mark.parametrize("raw", answers("ok"))
def test_an_honest_answer_keeps_its_data_and_satisfies_the_schema(raw: bytes) -> None:
    data = json.loads(raw)

    assert ADAPTER.dump_python(ADAPTER.validate_json(raw, strict=True), mode="json") == data
    SCHEMA.validate(data)


@pytest.mark.parametrize("raw", answers("judgement"))
def test_what_honest_people_differ_on_raises_nothing_but_a_validation_error(raw: bytes) -> None:
    try:
        proposal = ADAPTER.validate_json(raw, strict=True)
    except ValidationError:
        return
    # The last of doubled names wins here and in Python's own reader.
    assert ADAPTER.dump_python(proposal, mode="json") == json.loads(raw)
