"""Findings of pydantic as problems of an answer."""

import pytest
from pydantic import BaseModel, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from answerbus.problems import problems_of


class Tagged(BaseModel):
    kind: str

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        raise PydanticCustomError("union_tag_invalid", "unknown kind")


def test_a_validator_may_borrow_the_name_of_an_error_without_its_context() -> None:
    with pytest.raises(ValidationError) as raised:
        Tagged.model_validate({"kind": "x"})

    (problem,) = problems_of(raised.value, {"kind": "x"})

    assert (problem.path, problem.code) == ("/kind", "union_tag_invalid")
    assert problem.expected == "the tag to be one of those that are known"
