"""The dialect `prompted` puts the schema into words and changes no answer."""

import json

from pydantic import JsonValue

from answerbus.registry import Registry
from answerbus.request import InlineRef, TextRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, WireSchema
from services.worker.dialects.dispatch import compile_for
from tests.unit.worker.core.run_builders import actions, call, definition, step_schema, tool

SCHEMA: dict[str, JsonValue] = {"type": "object", "properties": {"é": {"type": "string"}}}


def prompted(ref: InlineRef | TextRef) -> WireSchema:
    asked = resolve(ref, Registry([]))
    assert isinstance(asked, ResolvedSchema)
    wire = compile_for("prompted", asked)
    assert isinstance(wire, WireSchema)
    return wire


def test_the_schema_is_in_the_instructions_alone() -> None:
    wire = prompted(InlineRef(name="mine", wrapped=False, json_schema=dict(SCHEMA)))
    text = json.dumps(SCHEMA, ensure_ascii=False, separators=(",", ":"))

    assert (wire.dialect, wire.name, wire.schema) == ("prompted", "mine", None)
    assert wire.instructions.endswith(text)
    assert len(wire.notes) == 1
    assert wire.decode({"any": "thing"}) == {"any": "thing"}


def test_plain_text_needs_no_words() -> None:
    wire = prompted(TextRef())

    assert (wire.dialect, wire.schema, wire.instructions, wire.notes) == ("prompted", None, "", ())


def test_arguments_that_a_tool_takes_are_left_as_they_are() -> None:
    """They would pass for a variant without its tag as well, which is no reason to change them."""
    refund: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"kind": {"const": "refund"}},
        "required": ["kind"],
    }
    repeat: dict[str, JsonValue] = {**refund, "properties": {"kind": {"const": "repeat"}}}
    how: JsonValue = {"anyOf": [refund, repeat, {"type": "object"}]}
    takes_any = tool(schema={"type": "object", "properties": {"how": how}})
    wire = compile_for("prompted", step_schema(definition(takes_any)))
    assert isinstance(wire, WireSchema)
    answer = actions(call(how={"refund": {}}))

    assert wire.read(answer).answer == answer


def test_arguments_that_a_tool_refuses_are_read_with_the_tag_that_is_missing() -> None:
    variants: list[JsonValue] = [
        {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}
        for kind in ("refund", "repeat")
    ]
    strict = tool(schema={"type": "object", "properties": {"how": {"anyOf": variants}}})
    wire = compile_for("prompted", step_schema(definition(strict)))
    assert isinstance(wire, WireSchema)

    found = wire.read(actions(call(how={"refund": {}}))).answer

    assert found == actions(call(how={"kind": "refund"}))
