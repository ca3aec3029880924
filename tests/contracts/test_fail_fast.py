"""A reader accepts what its type accepts, and reports missing members of large texts cheaply."""

import json
import random
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    TypeAdapter,
    ValidationError,
    WrapValidator,
)
from pydantic_core import ErrorDetails
from typing_extensions import TypeAliasType

from answerbus.envelope import Undecodable, decode
from answerbus.fail_fast import ALL_FAULTS_VALUES_MAX, JsonReader

EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples"
MANY = dict.fromkeys((f"m{number}" for number in range(ALL_FAULTS_VALUES_MAX)), 0)


class Inner(BaseModel):
    needed: int
    count: Annotated[int, AfterValidator(lambda count: count + 1)] = 3
    more: JsonValue = None


class Other(BaseModel):
    other: list[int]
    more: JsonValue = None


class Outer(BaseModel):
    inner: Inner
    others: list[Other]
    more: JsonValue = None


class Many(BaseModel):
    first: int
    second: int
    third: int


class Dated(BaseModel):
    """In strict mode a text may be a date in JSON, and not in Python data."""

    model_config = ConfigDict(strict=True)

    on: date
    more: JsonValue = None


Deep = TypeAliasType("Deep", Annotated[dict[str, "Deep"], Field(max_length=3)])  # type: ignore[misc]  # it is cyclic


class Nested(RootModel[Optional["Nested"]]):
    """A type that holds itself, and no field of another name."""


class Holder(BaseModel):
    nested: Nested
    named: dict[str, "Holder"] = {}
    deep: Deep = {}
    more: JsonValue = None


def _or_nothing(value: Any, read: Any) -> Inner | None:
    try:
        inner: Inner = read(value)
    except ValidationError:
        return None
    return inner


def faults(read: Any, value: object) -> list[ErrorDetails]:
    try:
        read(json.dumps(value).encode())
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def test_missing_members_of_a_large_text_are_all_reported_in_their_places() -> None:
    found = faults(JsonReader.of(Outer).validate_json, {"inner": MANY, "more": 1})

    assert [(fault["type"], fault["loc"]) for fault in found] == [
        ("missing", ("inner", "needed")),
        ("missing", ("others",)),
    ]


def test_missing_members_alone_are_reported_where_python_data_has_other_faults() -> None:
    class Both(BaseModel):
        dated: Dated
        needed: int

    found = faults(JsonReader.of(Both).validate_json, {"dated": {"on": "2026-11-26"}, "x": MANY})

    assert [(fault["type"], fault["loc"]) for fault in found] == [("missing", ("needed",))]


def test_no_object_is_copied_into_each_fault() -> None:
    """The text is read once as Python data, and all faults have the object that was read."""
    found = faults(JsonReader.of(Outer).validate_json, {"inner": {"needed": 1}, **MANY})
    (first, *others) = [fault["input"] for fault in faults(JsonReader.of(Many).validate_json, MANY)]

    assert [fault["loc"] for fault in found] == [("others",)]
    assert others
    assert all(other is first for other in others)


def test_a_small_text_has_all_its_faults() -> None:
    value = {"inner": {"count": "x"}, "others": [{"other": [None, None]}], "more": "a" * 3_000}

    assert faults(JsonReader.of(Outer).validate_json, value) == faults(
        TypeAdapter(Outer).validate_json, value
    )


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Inner | Other, {"other": [1], "more": MANY}),
        (list[Inner | Other], [{"other": [1], "more": MANY}, {"needed": 1}]),
        (Annotated[Inner, WrapValidator(_or_nothing)], {"more": MANY}),
        (Inner | Dated, {"on": "2026-11-26", "more": MANY}),
        (Outer, {"inner": {"needed": 1}, "others": [], "more": MANY}),
        (
            Holder,
            {
                "nested": None,
                "named": {"a": {"nested": None}},
                "deep": {"a": {"b": {}}},
                "more": MANY,
            },
        ),
    ],
    ids=["a choice", "in a list", "a function", "of other types", "defaults", "nested"],
)
def test_a_member_may_be_missing_where_the_type_forgives_it(form: Any, value: object) -> None:
    text = json.dumps(value).encode()

    assert JsonReader.of(form).validate_json(text) == TypeAdapter(form).validate_json(text)


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(6))
def test_an_event_without_some_members_is_read_as_its_type_reads_it(seed: int) -> None:
    """All examples, large, and each with a few members taken out."""
    chance = random.Random(seed)
    for path in sorted(EXAMPLES.rglob("*.json")):
        event = json.loads(path.read_text("utf-8"))
        for _ in range(chance.randrange(3)):
            _take_out(event, chance)
        small = decode(json.dumps(event).encode())
        large = decode(json.dumps({**event, "unknown": MANY}).encode())

        if not isinstance(small, Undecodable):
            assert large == small
            continue
        assert isinstance(large, Undecodable)
        # Of a list, the first wrong item alone is reported.
        assert set(large.problems) <= set(small.problems)
        assert large.problems


def _take_out(value: JsonValue, chance: random.Random) -> None:
    inside = [one for one in _objects(value) if one]
    chosen = chance.choice(inside)
    del chosen[chance.choice([*chosen])]


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    match value:
        case dict():
            return [value, *(found for one in value.values() for found in _objects(one))]
        case list():
            return [found for one in value for found in _objects(one)]
        case _:
            return []
