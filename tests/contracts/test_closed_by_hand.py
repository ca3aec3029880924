"""A class that has a say in its own JSON Schema is never closed against its own answers."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, create_model

from answerbus.client.answer_type import AnswerType
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.schema.validator import SchemaValidator, compile_schema

SEEDS = range(60)
NAMES = "abcde"
VALUES: dict[Any, list[Any]] = {int: [0, 7], str: ["", "text"], bool: [True], list[int]: [[], [1]]}

# What a schema may name beside `properties`; `more` is a member that the class does not have.
EXTRAS: list[dict[str, Any]] = [
    {"allOf": [{"properties": {"more": {"type": "string"}}, "required": ["more"]}]},
    {"anyOf": [{"required": ["more"]}, {"required": ["other"]}]},
    {"oneOf": [{"required": ["more"]}, {"required": ["other"]}]},
    {"if": True, "then": {"required": ["more"]}},
    {"not": {"properties": {"more": False}}},
    {"patternProperties": {"^more$": {"type": "string"}}},
    {"dependentSchemas": {"a": {"required": ["more"]}}},
    {"dependentRequired": {"a": ["more"]}},
    {"minProperties": 6},
    {"title": "plain"},
]


def beside(schema: dict[str, Any]) -> dict[str, Any]:
    """An `allOf` round what pydantic made, with one more required member."""
    return {"allOf": [schema, EXTRAS[0]["allOf"][0]]}


def with_member(schema: dict[str, Any]) -> dict[str, Any]:
    """What pydantic made, with one more member required and not described."""
    return {**schema, "required": [*schema.get("required", ()), "more"]}


def class_of(chance: random.Random) -> tuple[type[BaseModel], dict[str, Any]]:
    """A class, and values for its members."""
    names = chance.sample(NAMES, chance.randint(1, len(NAMES)))
    kinds = {name: chance.choice([*VALUES]) for name in names}
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in kinds.items()}
    how = chance.choice(["extra", "hook", "plain"])
    if how == "extra":
        config = ConfigDict(json_schema_extra=chance.choice(EXTRAS))
        made = create_model("Made", __config__=config, **fields)
    else:
        parent = _hooked(chance.choice([beside, with_member])) if how == "hook" else BaseModel
        made = create_model("Made", __base__=parent, **fields)
    return made, {name: chance.choice(VALUES[kind]) for name, kind in kinds.items()}


def _hooked(change: Callable[[dict[str, Any]], dict[str, Any]]) -> type[BaseModel]:
    class Hooked(BaseModel):
        @classmethod
        def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
            return change(handler.resolve_ref_schema(handler(core_schema)))

    return Hooked


def schema_of(form: Any) -> dict[str, Any]:
    ref = AnswerType.of(form, Registry()).ref
    assert isinstance(ref, InlineRef)
    assert isinstance(ref.json_schema, dict)
    return ref.json_schema


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_open_schema_accepts_of_a_class_the_closed_one_accepts(seed: int) -> None:
    made, values = class_of(random.Random(seed))
    made.model_validate(values)
    opened, closed = compile_schema(made.model_json_schema()), compile_schema(schema_of(made))
    assert isinstance(opened, SchemaValidator)
    assert isinstance(closed, SchemaValidator)
    answers = [
        made.model_validate(values).model_dump(mode="json"),
        {**values, "more": "text"},
        {**values, "more": "text", "a": values.get("a", 0)},
        {**values, "more": "text"} | {f"m{i}": i for i in range(6)},
    ]
    accepted = [answer for answer in answers if opened.problems(answer) == ()]
    is_closed = schema_of(made).get("additionalProperties") is False

    # A closed class loses no answer but those with members that it would ignore.
    kept = [answer for answer in accepted if not is_closed or answer.keys() <= values.keys()]
    assert [answer for answer in kept if closed.problems(answer)] == []
    assert kept


def test_an_ordinary_class_is_still_closed() -> None:
    made = create_model("Made", x=(int, ...))

    assert schema_of(made)["additionalProperties"] is False
