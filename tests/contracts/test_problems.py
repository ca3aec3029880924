"""Findings of pydantic as problems of an answer."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from answerbus.problems import problems_of
from answerbus.request import SchemaRef
from answerbus.wire import Reason


class Tagged(BaseModel):
    kind: str

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        raise PydanticCustomError("union_tag_invalid", "unknown kind")


class Bounded(BaseModel):
    messages: Annotated[tuple[int, ...], Field(min_length=1, max_length=2)] = (1,)
    labels: Annotated[dict[str, str], Field(max_length=1)] = {}
    why: Annotated[Reason, Field(min_length=1)] = "?"


def test_a_validator_may_borrow_the_name_of_an_error_without_its_context() -> None:
    with pytest.raises(ValidationError) as raised:
        Tagged.model_validate({"kind": "x"})

    (problem,) = problems_of(raised.value, {"kind": "x"})

    assert (problem.path, problem.code) == ("/kind", "union_tag_invalid")
    assert problem.expected == "the tag to be one of those that are known"


def test_an_object_without_its_kind_is_described_in_words() -> None:
    """Pydantic says `Unable to extract tag using discriminator 'kind'`."""
    value: dict[str, JsonValue] = {"type": "json_schema", "json_schema": {}}
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(SchemaRef).validate_python(value)

    (problem,) = problems_of(raised.value, value)

    assert (problem.path, problem.code) == ("", "union_tag_not_found")
    assert problem.expected == "a member 'kind', which says of what kind it is"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"messages": [1, 2, 3]}, "2 or fewer items"),
        ({"messages": []}, "1 or more items"),
        ({"labels": {"a": "", "b": ""}}, "1 or fewer items"),
        ({"why": ""}, "1 or more characters"),
    ],
)
def test_a_size_is_described_in_terms_of_json(value: dict[str, JsonValue], expected: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Bounded.model_validate(value)

    (problem,) = problems_of(raised.value, value)
    assert problem.expected == expected
