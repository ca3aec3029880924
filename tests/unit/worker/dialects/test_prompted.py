"""The dialect `prompted` puts the schema into words and changes no answer."""

import json

from pydantic import JsonValue

from answerbus.registry import Registry
from answerbus.request import InlineRef, TextRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, WireSchema
from services.worker.dialects.dispatch import compile_for

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
