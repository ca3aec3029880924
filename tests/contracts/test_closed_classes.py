"""A class that ignores unknown members is asked for without any; one that keeps them stays open."""

from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from answerbus.answers.specialist import Specialist
from answerbus.client.answer_type import AnswerType
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.attempt.check import check
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, WireSchema
from services.worker.dialects.dispatch import DialectName, compile_for

T = TypeVar("T")


class Selector(BaseModel):
    element_id: str | None


class Tree(BaseModel):
    inner: "Selector"
    below: list["Tree"] = Field(default_factory=list)


class Click(BaseModel):
    kind: Literal["click"]


class Stop(BaseModel):
    kind: Literal["stop"]
    why: str


class Step(BaseModel):
    action: Annotated[Click | Stop, Field(discriminator="kind")]
    by_name: dict[str, Selector]
    args: dict[str, Any]


class Page(BaseModel, Generic[T]):
    items: list[T]


class Nothing(BaseModel):
    pass


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int


class Keeping(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class KeepingNumbers(Keeping):
    __pydantic_extra__: dict[str, int]


class Stated(BaseModel):
    model_config = ConfigDict(json_schema_extra={"additionalProperties": {"type": "integer"}})
    x: int


class ByName(RootModel[dict[str, Any]]):
    pass


class Point(NamedTuple):
    x: int


class Typed(TypedDict):
    x: int


@dataclass
class Plain:
    x: int


@pydantic_dataclass
class Checked:
    x: int


def schema_of(form: Any) -> Any:
    ref = AnswerType.of(form, Registry()).ref
    assert isinstance(ref, InlineRef)
    return ref.json_schema


def objects(schema: Any) -> list[Any]:
    """All schemas of objects with named members."""
    match schema:
        case dict():
            inner = [found for value in schema.values() for found in objects(value)]
            return [schema, *inner] if "properties" in schema else inner
        case list():
            return [found for value in schema for found in objects(value)]
        case _:
            return []


@pytest.mark.parametrize(
    ("form", "count"),
    [
        (Selector, 1),
        (Tree, 2),
        (Step, 4),
        (Page[Selector], 2),
        (list[Selector], 1),
        (Selector | Click, 2),
        (Nothing, 1),
        (Strict, 1),
        (Typed, 1),
        (Plain, 1),
        (Checked, 1),
        (Specialist[Selector], 1),
    ],
    ids=str,
)
def test_what_the_class_would_ignore_is_not_asked_for(form: Any, count: int) -> None:
    found = objects(schema_of(form))

    assert [inner.get("additionalProperties") for inner in found] == [False] * count


@pytest.mark.parametrize(
    ("form", "others"),
    [
        (Keeping, True),
        (KeepingNumbers, {"type": "integer"}),
        (Stated, {"type": "integer"}),
        (ByName, True),
        (dict[str, Any], True),
        (dict[str, int], {"type": "integer"}),
    ],
    ids=str,
)
def test_what_the_class_keeps_stays_open(form: Any, others: JsonValue) -> None:
    assert schema_of(form)["additionalProperties"] == others


def test_what_is_no_object_is_as_it_was() -> None:
    assert schema_of(Point)["type"] == "array"
    assert schema_of(int) == {"type": "integer"}
    assert schema_of(JsonValue) == {}


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini", "llama_cpp", "ollama"])
@pytest.mark.parametrize("form", [Selector, Tree, Step, Typed, Plain, Specialist[Tree]], ids=str)
def test_a_model_is_shown_no_member_that_the_class_does_not_have(
    dialect: DialectName, form: Any
) -> None:
    asked = resolve(AnswerType.of(form, Registry()).ref, Registry())
    assert isinstance(asked, ResolvedSchema)
    wire = compile_for(dialect, asked)

    assert isinstance(wire, WireSchema)
    assert "extra" not in wire.text


def test_an_ordinary_class_is_answered_at_once() -> None:
    asked = resolve(AnswerType.of(Selector, Registry()).ref, Registry())
    assert isinstance(asked, ResolvedSchema)
    wire = compile_for("openai", asked)
    assert isinstance(wire, WireSchema)

    assert check('{"element_id": "e1"}', asked, wire) == Accepted({"element_id": "e1"})
