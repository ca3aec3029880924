"""The public schemas break no promise of the last release; each kind of break is named."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from infra.breaking.compare import Breaking, breaking_changes

CONTRACTS = Path(__file__).parents[2] / "contracts"


def version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.split("."))


def read(folder: Path) -> dict[str, Any]:
    return {
        path.relative_to(folder).as_posix(): json.loads(path.read_bytes())
        for path in sorted(folder.rglob("*.json"))
    }


RELEASED = read(max((CONTRACTS / "released").iterdir(), key=version))
REQUEST, RESULT, DEAD_LETTER = (
    f"events/{kind}.v1.json" for kind in ("request", "result", "dead_letter")
)
ANSWER, ASKED = "contracts/agent_action.v1.json", "contracts/agent_action.v1.asked.json"


def test_nothing_that_was_released_is_broken() -> None:
    """If this fails, a consumer will: make the change additive, or give it a new version."""
    assert breaking_changes(RELEASED, read(CONTRACTS / "schemas")) == []


def test_the_release_has_every_event_and_contract_in_it() -> None:
    assert {REQUEST, RESULT, DEAD_LETTER, ANSWER, ASKED} <= RELEASED.keys()
    assert breaking_changes(RELEASED, RELEASED) == []
    assert breaking_changes(RELEASED, {}) == [
        Breaking(name, "", "the schema is gone") for name in sorted(RELEASED)
    ]


def place(documents: dict[str, Any], name: str, pointer: str) -> Any:
    found = documents[name]
    for step in pointer.split("/")[1:]:
        found = found[int(step) if isinstance(found, list) else step]
    return found


GONE = object()


def changed(name: str, pointer: str, value: Any) -> dict[str, Any]:
    """The released schemas with another value in one place, or with nothing there."""
    documents = RELEASED | {name: copy.deepcopy(RELEASED[name])}
    above, _, last = pointer.rpartition("/")
    holder = place(documents, name, above)
    key: Any = int(last) if isinstance(holder, list) and last != "-" else last
    if value is GONE:
        del holder[key]
    elif key == "-":
        holder.append(value)
    else:
        holder[key] = value
    return documents


NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("name", "pointer", "value", "expected"),
    [
        (RESULT, "/properties/answer", GONE, ("/properties/answer", "`answer` is gone")),
        (REQUEST, "/properties/labels", GONE, ("/properties/labels", "`labels` is gone")),
        (REQUEST, "/required/-", "labels", ("/required", "`labels` must be there")),
        (RESULT, "/required/0", GONE, ("/properties/kind", "is no longer always there")),
        (
            DEAD_LETTER,
            "/$defs/UnsupportedSchema/properties/dialect/type",
            "integer",
            ("/$defs/UnsupportedSchema/properties/dialect/type", "allows the type string"),
        ),
        (
            DEAD_LETTER,
            "/$defs/UnsupportedSchema/properties/dialect/maxLength",
            8,
            ("/$defs/UnsupportedSchema/properties/dialect/maxLength", "is 8 and is new"),
        ),
        (
            RESULT,
            "/$defs/Budget/properties/attempts/maximum",
            10,
            ("/$defs/Budget/properties/attempts/maximum", "is 10 and was 1000000"),
        ),
        (
            RESULT,
            "/$defs/Budget/properties/attempts/minimum",
            1,
            ("/$defs/Budget/properties/attempts/minimum", "is 1 and was 0"),
        ),
        (
            REQUEST,
            "/$defs/Budget/additionalProperties",
            {"type": "integer"},
            ("/$defs/Budget/additionalProperties", "is tighter"),
        ),
        (
            RESULT,
            "/$defs/Budget/properties/tokens/anyOf/1",
            GONE,
            ("/$defs/Budget/properties/tokens/anyOf/1", "the variant null is gone"),
        ),
        (
            RESULT,
            "/$defs/Budget/properties/attempts",
            {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 1000000}, NULL]},
            ("/$defs/Budget/properties/attempts", "the variant null is new"),
        ),
        (DEAD_LETTER, "/$defs/UnknownSchema/properties/kind/const", "x", ("", "unknown_schema")),
        (ANSWER, "/$defs/Thought/properties/kind/const", "musing", ("", '"thought" is gone')),
        (ANSWER, "/$defs/Thought/properties/kind/const", "musing", ("", '"musing" is new')),
        (ASKED, "/$defs/Thought/required/-", "why", ("/$defs/Thought/required", "`why` must be")),
    ],
)  # fmt: skip
def test_each_kind_of_breaking_change_is_named(
    name: str, pointer: str, value: Any, expected: tuple[str, str]
) -> None:
    found = breaking_changes(RELEASED, changed(name, pointer, value))

    assert {change.document for change in found} == {name}
    assert any(
        change.pointer.startswith(expected[0]) and expected[1] in change.change for change in found
    ), found


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, 'no longer allows "b"'),
        ({"type": "string"}, {"type": "string", "enum": ["a"]}, 'allows nothing but ["a"]'),
        ({"type": ["string", "null"]}, {"type": "string"}, "no longer allows the type null"),
        ({"type": "number"}, {"type": "integer"}, "no longer allows the type number"),
        ({}, {"type": "string"}, "no longer allows the type array"),
        ({"type": "string"}, {"type": "string", "pattern": "a"}, '`pattern` is "a" and is new'),
        ({"items": {"maxLength": 3}}, {"items": {"maxLength": 2}}, "`maxLength` is 2 and was 3"),
        ({"items": {"type": "null"}}, {"items": False}, "`items` is tighter"),
        (
            {"prefixItems": [{"minimum": 1}]},
            {"prefixItems": [{"minimum": 2}]},
            "`minimum` is 2 and was 1",
        ),
        ({"properties": {"a": {}}}, {"properties": {"a": {}}, "required": ["a"]}, "must be there"),
        ({}, {"additionalProperties": False}, "`additionalProperties` is tighter"),
        ({}, {"not": {"type": "null"}}, "`not` is"),
    ],
)
def test_what_others_write_may_not_be_tightened(old: Any, new: Any, change: str) -> None:
    found = breaking_changes({REQUEST: old}, {REQUEST: new})

    assert change in " ".join(breaking.change for breaking in found)
    assert breaking_changes({REQUEST: new}, {REQUEST: old}) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": "integer"}, {"type": "number"}),
        ({"type": "string"}, {"anyOf": [{"type": "string"}, NULL]}),
        ({"properties": {"a": {}}, "required": ["a"]}, {"properties": {"a": {}}}),
    ],
)
def test_what_others_read_stays_as_sure_as_it_was(old: Any, new: Any) -> None:
    assert breaking_changes({RESULT: old}, {RESULT: new}) != []
    assert breaking_changes({REQUEST: old}, {REQUEST: new}) == []


FIELD = {"type": "string", "default": ""}


@pytest.mark.parametrize("name", sorted(RELEASED))
def test_a_new_optional_field_is_no_new_version(name: str) -> None:
    document = copy.deepcopy(RELEASED[name])
    for schema in (document, *document.get("$defs", {}).values()):
        if "properties" in schema:
            schema["properties"]["more"] = FIELD
            if not name.startswith("events/request") and not name.endswith(".asked.json"):
                schema["required"] = [*schema.get("required", []), "more"]
        schema["description"] = "In other words."

    assert breaking_changes({name: RELEASED[name]}, {name: document}) == []


def test_a_new_cause_is_no_new_version_but_a_new_variant_of_an_answer_is() -> None:
    cause = {"properties": {"kind": {"const": "new"}}, "required": ["kind"], "type": "object"}
    dead_letters = changed(DEAD_LETTER, "/properties/cause/oneOf/-", cause)
    answers = changed(ANSWER, "/properties/actions/items/oneOf/-", cause)

    assert breaking_changes(RELEASED, dead_letters) == []
    assert [change.change for change in breaking_changes(RELEASED, answers)] == [
        'the variant kind "new" is new'
    ]


def test_schemas_inside_themselves_are_compared_to_an_end() -> None:
    node: Any = {"properties": {"next": {"$ref": "#/$defs/n"}, "v": {"type": "integer"}}}
    other = copy.deepcopy(node)
    other["properties"]["v"]["type"] = "string"
    old: Any
    new: Any
    old, new = ({"$ref": "#/$defs/n", "$defs": {"n": schema}} for schema in (node, other))

    assert breaking_changes({REQUEST: old}, {REQUEST: new}) == [
        Breaking(REQUEST, "/$defs/n/properties/v/type", "no longer allows the type integer")
    ]
