"""Unions without their tags: which tags there are, and what can mean one thing only."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, JsonValue, TypeAdapter

from answerbus import failure
from answerbus.answers.agent_action import AGENT_ACTION
from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.registry import Registry
from answerbus.request import InlineRef, SchemaRef
from services.worker.core.attempt.check import Checked, check
from services.worker.core.guard.effort import TooMuchWorkError, sparing
from services.worker.core.json_schema.document import Document
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, WireSchema
from services.worker.core.schema.tags import STEPS_MAX, with_tags
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects import prompted
from services.worker.dialects.dispatch import compile_for

CALL = {"name": "search", "args": {"q": "x"}}


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog", "wolf"] = "dog"
    name: str


class Zoo(BaseModel):
    best: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    all: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = []
    by_name: dict[str, Annotated[Cat | Dog, Field(discriminator="kind")]] = {}


def variant(tag: str, member: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"op": {"const": tag}, member: {"type": "string"}},
        "required": ["op", member],
        "additionalProperties": False,
        **more,
    }


BY_CONST: dict[str, Any] = {"oneOf": [variant("read", "path"), variant("run", "command")]}
BY_ENUM: dict[str, Any] = {
    "anyOf": [
        {**variant("", "path"), "properties": {"op": {"enum": ["read"]}, "path": {}}},
        {"$ref": "#/$defs/run"},
        {"type": "null"},
    ],
    "$defs": {"run": variant("run", "command")},
}
BY_MAPPING: dict[str, Any] = {
    "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
    "discriminator": {
        "propertyName": "op",
        "mapping": {"read": "#/$defs/a", "run": "#/$defs/b"},
    },
    "$defs": {
        name: {
            "type": "object",
            "properties": {"op": {"type": "string"}, member: {"type": "string"}},
            "required": ["op", member],
        }
        for name, member in (("a", "path"), ("b", "command"))
    },
}
NESTED: dict[str, Any] = {
    "oneOf": [{"oneOf": [variant("read", "path")]}, variant("run", "command")]
}
EACH = pytest.mark.parametrize(
    "union", [BY_CONST, BY_ENUM, BY_MAPPING, NESTED], ids=["const", "enum", "mapping", "nested"]
)


def resolved(ref: SchemaRef) -> ResolvedSchema:
    found = resolve(ref, Registry())
    assert isinstance(found, ResolvedSchema)
    return found


def rejection_of(ref: SchemaRef, answer: JsonValue) -> Checked:
    """What the dialect `prompted` makes of an answer."""
    asked = resolved(ref)
    return check(json.dumps(answer), asked, prompted.compile_schema(asked))


def inline(schema: dict[str, Any], *, wrapped: bool = False) -> InlineRef:
    return InlineRef(name="n", wrapped=wrapped, json_schema=schema)


def at_root(union: dict[str, Any]) -> dict[str, Any]:
    """The union as the member of an object, with its definitions where references look for them."""
    inner = {name: part for name, part in union.items() if name != "$defs"}
    return {"type": "object", "properties": {"step": inner}, "$defs": union.get("$defs", {})}


@EACH
def test_an_object_whose_only_member_is_the_name_of_a_variant_is_that_variant(
    union: dict[str, Any],
) -> None:
    loose: JsonValue = {"run": {"command": "ls"}}
    strict: JsonValue = {"op": "run", "command": "ls"}
    for schema, of in ((union, lambda x: x), (at_root(union), lambda x: {"step": x})):
        found = rejection_of(inline(schema), of(loose))
        assert isinstance(found, Accepted)
        assert found.answer == of(strict)

    wrapped: dict[str, JsonValue] = {"success": True, "notes": [], "failure_reason": None}
    found = rejection_of(inline(union, wrapped=True), {**wrapped, "output": loose})
    assert isinstance(found, Accepted)
    assert found.answer == {**wrapped, "output": strict}


@EACH
@pytest.mark.parametrize(
    "answer",
    [
        {"run": {"op": "read", "command": "ls"}},
        {"run": {"command": "ls"}, "read": {"path": "x"}},
        {"run": {"command": "ls"}, "why": "x"},
        {"run": "ls"},
        {"Run": {"command": "ls"}},
        {"op": {"command": "ls"}},
        {"jump": {"command": "ls"}},
        {"run": {"path": "x"}},
        [{"run": {"command": "ls"}}],
        {},
    ],
)
def test_what_may_mean_something_else_is_asked_again(
    union: dict[str, Any], answer: JsonValue
) -> None:
    assert isinstance(rejection_of(inline(union), answer), failure.Invalid)


@pytest.mark.parametrize(
    "answer",
    [
        {"tool_call": CALL},
        [{"tool_call": CALL}],
        {"actions": [{"tool_call": CALL}]},
        {"actions": [{"tool_call": {"kind": "tool_call", **CALL}}]},
    ],
)
def test_an_action_may_be_chosen_by_its_name(answer: JsonValue) -> None:
    found = rejection_of(AGENT_ACTION.ref, answer)

    assert isinstance(found, Accepted)
    assert found.answer == {"actions": [{"kind": "tool_call", **CALL}]}


def test_a_union_of_a_contract_at_the_root_may_be_chosen_by_the_name_of_its_variant() -> None:
    refusal: dict[str, JsonValue] = {"reason": "out_of_scope", "detail": "x"}

    found = rejection_of(PLAN_PROPOSAL.ref, {"refuse": refusal | {"rationale": "r"}})

    assert isinstance(found, Accepted)
    assert found.answer == {"kind": "refuse", **refusal}


@pytest.mark.parametrize(
    ("loose", "strict"),
    [
        ({"best": {"cat": {"lives": 9}}}, {"best": {"kind": "cat", "lives": 9}}),
        ({"all": [{"wolf": {"name": "w"}}]}, {"all": [{"kind": "wolf", "name": "w"}]}),
        (
            {"by_name": {"cat": {"dog": {"name": "d"}}}},
            {"by_name": {"cat": {"kind": "dog", "name": "d"}}},
        ),
    ],
)
def test_pydantics_unions_are_read_wherever_they_stand(loose: JsonValue, strict: JsonValue) -> None:
    schema = TypeAdapter(Zoo).json_schema()

    assert with_tags(Document(schema), loose) == strict
    assert with_tags(Document(schema), strict) == strict


def test_where_a_provider_enforces_the_schema_no_other_form_is_read() -> None:
    asked = resolved(AGENT_ACTION.ref)
    wire = compile_for("openai", asked)
    assert isinstance(wire, WireSchema)

    found = check(json.dumps({"actions": [{"tool_call": CALL}]}), asked, wire)

    assert isinstance(found, failure.Invalid)


@EACH
def test_a_union_without_its_tag_is_reported_with_the_tags_that_there_are(
    union: dict[str, Any],
) -> None:
    bare: JsonValue = {"command": "ls"}
    for schema, answer, place in ((union, bare, ""), (at_root(union), {"step": bare}, "/step")):
        found = rejection_of(inline(schema), answer)
        assert isinstance(found, failure.Invalid)
        (problem,) = found.problems
        assert (problem.path, problem.code) == (place, "tag")
        assert problem.found == "an object without `op`"
        assert problem.expected == 'a member `op` that is one of "read", "run"'


def test_the_same_is_reported_for_a_contract() -> None:
    found = rejection_of(
        AGENT_ACTION.ref, {"actions": [{"kind": "thought", "content": "x"}, {"content": "x"}]}
    )

    assert isinstance(found, failure.Invalid)
    (problem,) = found.problems
    assert (problem.path, problem.code) == ("/actions/1", "union_tag_not_found")
    assert problem.expected == (
        'a member `kind` that is one of "text_response", "thought", "tool_call"'
    )


def test_other_faults_are_reported_beside_it() -> None:
    schema = {
        "type": "object",
        "properties": {"a": BY_CONST, "b": {"type": "integer"}, "c": BY_CONST},
    }

    found = rejection_of(inline(schema), {"a": {"path": "x"}, "b": "x", "c": {"op": "jump"}})

    assert isinstance(found, failure.Invalid)
    assert {(p.path, p.found) for p in found.problems} == {
        ("/a", "an object without `op`"),
        ("/b", "a text of 1 characters"),
        ("/c/op", "another tag"),
    }


@pytest.mark.wide
def test_a_schema_that_takes_too_long_to_look_at_is_left_alone() -> None:
    union: JsonValue = {"oneOf": [variant(f"v{n}", "x") for n in range(500)]}
    schema: dict[str, JsonValue] = {"type": "array", "items": {"anyOf": [union, {"type": "null"}]}}
    answer: list[JsonValue] = [{"v1": {"x": "y"}}] * STEPS_MAX

    assert with_tags(Document(schema), answer) == answer
    assert with_tags(Document(schema), answer[:3]) == [{"op": "v1", "x": "y"}] * 3


def same_tags(members: int, tags: int) -> dict[str, Any]:
    """Two alternatives with the same tags in each member, so that none tells them apart."""
    properties = {f"m{n}": {"$ref": "#/$defs/tag"} for n in range(members)}
    named = {"tag": {"enum": [f"t{n}" for n in range(tags)]}}
    return {"anyOf": [{"properties": properties}, {"properties": {**properties}}], "$defs": named}


def mapped(variants: int) -> dict[str, Any]:
    """A mapping whose every tag names the last of the references."""
    return {
        "anyOf": [{"$ref": f"#/$defs/v{n}"} for n in range(variants)],
        "discriminator": {
            "propertyName": "op",
            "mapping": {f"t{n}": f"v{variants - 1}" for n in range(variants)},
        },
        "$defs": {f"v{n}": {"properties": {}} for n in range(variants)},
    }


@pytest.mark.parametrize(
    "union",
    [
        {"anyOf": [{"properties": {f"m{n}": {"const": "x"} for n in range(90)}} for _ in "x" * 99]},
        same_tags(members=200, tags=2_000),
        mapped(900),
    ],
    ids=["members", "tags", "mapping"],
)
def test_looking_for_a_tag_is_paid_for(union: dict[str, Any]) -> None:
    """An alternative is looked at once for each member of the first that has tags there."""
    with sparing(), pytest.raises(TooMuchWorkError):
        with_tags(Document(union), {})


def test_a_member_that_is_no_tag_of_the_first_alternative_costs_one_step() -> None:
    members: dict[str, Any] = {f"m{n}": {} for n in range(900)}
    others: list[JsonValue] = [{"properties": {}} for _ in range(900)]
    checked = compile_schema({"required": ["z"], "anyOf": [{"properties": members}, *others]})
    assert isinstance(checked, SchemaValidator)

    with sparing():
        assert [problem.code for problem in checked.problems({})] == ["required"]
