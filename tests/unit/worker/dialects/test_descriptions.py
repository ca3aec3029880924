"""What a schema says of its parts reaches the model: in the wire schema, else in the prompt."""

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel, Field

from services.worker.core.attempt.prompt import build
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.keywords import JsonObject, subschemas
from services.worker.core.schema.resolved import Unusable
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects.compiler.shapes.describe import lost_descriptions
from services.worker.dialects.dispatch import DialectName
from tests.schemas import SCHEMAS, Made, free_beside_typed, recursive
from tests.strict_subset import faults
from tests.unit.worker.builders import request
from tests.unit.worker.dialects.compiling import compiled, wire

NATIVE: list[DialectName] = ["openai", "anthropic", "gemini", "llama_cpp", "ollama"]
EACH = pytest.mark.parametrize("dialect", NATIVE)


class Person(BaseModel):
    """Who buys or sells."""

    name: str = Field(description="said: the name")


class Cat(BaseModel):
    kind: Literal["cat"] = Field(description="said: the tag of a cat")
    lifecycles: int = Field(description="said: lives")


class Dog(BaseModel):
    kind: Literal["dog"] = Field(description="said: the tag of a dog")


class Order(BaseModel):
    text: str = Field(description="said: a text")
    count: int = Field(ge=0, description="said: a bounded number")
    maybe: str | None = Field(description="said: a text or null")
    left_out: str | None = Field(default=None, description="said: may be left out")
    bounded: Annotated[str, Field(max_length=5)] | None = Field(description="said: short or null")
    several: int | str | list[int] = Field(description="said: a number, a text or a list")
    choice: Literal["a", "b"] = Field(description="said: one of two")
    mixed: Literal["a", 1] | None = Field(description="said: one of several types")
    chosen: Literal["a", "b"] | None = Field(default=None, description="said: one of two, or none")
    anything: Any = Field(description="said: anything")
    free: dict[str, Any] = Field(description="said: a free object")
    named: dict[str, Person] = Field(description="said: persons by name")
    listed: list[str] = Field(description="said: a list")
    persons: list[Person] = Field(description="said: a list of persons")
    buyer: Person = Field(description="said: who buys")
    seller: Person | None = Field(default=None, description="said: who sells, if anyone")
    agent: Person = Field(default=Person(name="x"), description="said: who is between")
    pet: Cat | Dog = Field(description="said: a pet by its tag", discriminator="kind")
    other_pet: Cat | Dog = Field(description="said: a pet without a discriminator")
    pair: tuple[int, str] = Field(description="said: a pair")


# Beside a bare reference no provider has a place for words. A reference is bare where no null says
# "left out": where the member must be there, or is really left out.
BUYER, AGENT, SELLER = "said: who buys", "said: who is between", "said: who sells, if anyone"
BESIDE_REFERENCES: dict[str, set[str]] = {
    "openai": {BUYER},
    "anthropic": {BUYER, AGENT, SELLER},
    "gemini": {BUYER, AGENT},
    "llama_cpp": {BUYER, AGENT},
    "ollama": {BUYER, AGENT},
}


def stated(schema: JsonObject) -> set[str]:
    """All descriptions of a schema."""
    own = {text} if isinstance(text := schema.get("description"), str) else set()
    inner = [part for _, part in subschemas(schema) if isinstance(part, dict)]
    return own.union(*map(stated, inner))


@EACH
def test_each_field_of_a_class_is_described_where_it_stands(dialect: DialectName) -> None:
    schema = Order.model_json_schema()
    made = wire(dialect, schema)
    texts = stated(schema)
    lost = {text for text in texts if text not in made.text}

    assert len(texts) == 25
    assert lost == BESIDE_REFERENCES[dialect]
    assert [text for text in lost if text not in made.instructions] == []


@EACH
def test_the_description_of_a_union_stands_beside_it(dialect: DialectName) -> None:
    schema = {
        "type": "object",
        "properties": {
            "element_id": {
                "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
                "description": "The element.",
            },
            "mode": {"enum": ["a", "b"], "description": "The mode."},
        },
        "required": ["element_id", "mode"],
        "additionalProperties": False,
    }
    sent: Any = wire(dialect, schema).schema

    assert sent["properties"]["element_id"]["description"] == "The element."
    assert sent["properties"]["mode"]["description"] == "The mode."
    assert "The element." not in json.dumps(sent["properties"]["element_id"].get("anyOf"))


@EACH
def test_a_description_beside_a_reference_stands_in_the_prompt(dialect: DialectName) -> None:
    schema: Any = Order.model_json_schema()
    made = wire(dialect, schema)
    prompt = build(request(), made, [], 100)

    assert '"/properties/buyer": "said: who buys"' in prompt.system
    assert ("who sells" in prompt.system) == (dialect == "anthropic")


@EACH
def test_one_text_at_two_places_stands_at_both(dialect: DialectName) -> None:
    ref = {"$ref": "#/$defs/p", "description": "The same."}
    schema: Any = {
        "type": "object",
        "properties": {"a": ref, "b": {"type": "string", "description": "The same."}},
        "required": ["a", "b"],
        "additionalProperties": False,
        "$defs": {"p": Person.model_json_schema(), "unused": {"description": "Never read."}},
    }
    made = wire(dialect, schema)

    assert '"/properties/a": "The same."' in made.instructions
    assert "Never read." not in made.text + made.instructions


@EACH
@pytest.mark.wide
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(made=SCHEMAS | recursive() | free_beside_typed())
def test_no_description_of_any_schema_is_lost(dialect: DialectName, made: Made) -> None:
    schema, texts = with_words(made.schema)
    assert isinstance(compile_schema(schema), SchemaValidator)
    found = compiled(dialect, schema)
    if isinstance(found, Unusable):
        return
    assert found.schema is not None
    shown = plainly(found.text) + plainly(found.instructions)

    assert faults(found.schema, dialect) == []
    assert [text for text in texts if text not in shown] == []


def test_what_stands_beside_a_reference_of_draft_7_is_not_stated() -> None:
    """It means nothing there."""
    beside: JsonObject = {
        "$ref": "#/definitions/A",
        "properties": {"x": {"description": "ignored"}},
    }
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": beside},
        "definitions": {"A": {"description": "said"}, "B": {"description": "unused"}},
    }
    found = lost_descriptions(Document(schema), {}, frozenset())
    assert found == {"/definitions/A": "said"}


def plainly(text: str) -> str:
    """JSON in JSON without its escapes."""
    return text.replace("\\", "")


def with_words(schema: Any) -> tuple[Any, list[str]]:
    """The schema with a description everywhere, and these."""
    texts: list[str] = []

    def worded(part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        texts.append(f"<{len(texts)}>")
        copy: Any = json.loads(json.dumps(part | {"description": texts[-1]}))
        for steps, inner in subschemas(part):
            place = copy
            for step in steps[:-1]:
                place = place[step]
            place[steps[-1]] = worded(inner)
        return copy

    return worded(schema), texts
