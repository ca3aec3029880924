"""A schema compiled to a dialect, and checked against the subset that its provider takes."""

from typing import Any

from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, Unusable, WireSchema
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.strict_subset import faults


def compiled(dialect: DialectName, schema: Any) -> WireSchema | Unusable:
    asked = resolve(InlineRef(name="mine", wrapped=False, json_schema=schema), Registry([]))
    assert isinstance(asked, ResolvedSchema), asked
    return compile_for(dialect, asked)


def wire(dialect: DialectName, schema: Any) -> WireSchema:
    made = compiled(dialect, schema)
    assert isinstance(made, WireSchema), made
    assert made.schema is not None
    assert faults(made.schema, dialect) == []
    return made


def sent(dialect: DialectName, schema: Any) -> Any:
    """The wire schema without descriptions; of a boxed root, what is in the box."""
    whole = _bare(wire(dialect, schema).schema)
    boxed = list(whole.get("properties", ())) == ["answer"]
    return whole["properties"]["answer"] if boxed else whole


def _bare(value: Any) -> Any:
    match value:
        case dict():
            return {k: _bare(v) for k, v in value.items() if k != "description"}
        case list():
            return [_bare(item) for item in value]
        case _:
            return value


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """An object of these members and no others; only `required` must be there."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
