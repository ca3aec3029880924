"""The dialect `openai`: the strict subset of OpenAI and of servers compatible with it."""

from collections.abc import Iterator

from pydantic import JsonValue

from services.worker.core.asked import Asked, Unusable, WireSchema
from services.worker.dialects import text
from services.worker.dialects.names import portable_name
from services.worker.dialects.rules import Rules
from services.worker.dialects.shape import JsonObject
from services.worker.dialects.wire import compile_shapes, unsupported

DIALECT = "openai"
RULES = Rules(
    dialect=DIALECT,
    formats=frozenset(
        ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]
    ),
    patterns=True,
    number_bounds=True,
    list_sizes=True,
)

# What the provider's documentation names.
PROPERTIES_MAX = 5_000
LEVELS_MAX = 10  # of objects in objects; a reference begins anew
NAME_CHARS_MAX = 120_000  # of property names, definition names and enum values together
ENUM_VALUES_MAX = 1_000


def compile_schema(asked: Asked) -> WireSchema | Unusable:
    """The wire schema of `asked`, or why this dialect cannot carry it."""
    if asked.schema is None:
        return text.compile_schema(asked, DIALECT)
    compiled = compile_shapes(asked.schema, RULES)
    if isinstance(compiled, Unusable):
        return compiled
    excess = _excess(compiled.schema)
    if excess:
        return unsupported(DIALECT, "", excess)
    return WireSchema(
        dialect=DIALECT,
        name=portable_name(asked.name, "answer"),
        schema=compiled.schema,
        decode=compiled.decode,
        notes=compiled.notes,
    )


def _excess(schema: JsonObject) -> str | None:
    """What there must be less of, if the wire schema is beyond a limit."""
    schemas = list(_schemas(schema, 0))
    properties = [name for inner, _ in schemas for name in _members(inner)]
    enums = [value for inner, _ in schemas for value in _listed(inner)]
    texts = [*properties, *_names(schema.get("$defs")), *map(str, enums)]
    if len(properties) > PROPERTIES_MAX:
        return f"at most {PROPERTIES_MAX} properties; it comes to {len(properties)} here"
    if max(level for _, level in schemas) > LEVELS_MAX:
        return f"at most {LEVELS_MAX} levels of objects in objects; inner ones fit into $defs"
    if sum(map(len, texts)) > NAME_CHARS_MAX:
        return f"at most {NAME_CHARS_MAX} characters of property names and enum values"
    if len(enums) > ENUM_VALUES_MAX:
        return f"at most {ENUM_VALUES_MAX} enum values; it comes to {len(enums)} here"
    return None


def _schemas(schema: JsonValue, level: int) -> Iterator[tuple[JsonObject, int]]:
    """Each schema with the number of objects it is inside of, itself included."""
    if not isinstance(schema, dict):
        return
    level += "properties" in schema
    yield schema, level
    for inner in (*_values(schema.get("properties")), *_values(schema.get("anyOf"))):
        yield from _schemas(inner, level)
    yield from _schemas(schema.get("items"), level)
    for inner in _values(schema.get("$defs")):
        yield from _schemas(inner, 0)


def _members(schema: JsonObject) -> list[str]:
    return _names(schema.get("properties"))


def _names(named: JsonValue) -> list[str]:
    return list(named) if isinstance(named, dict) else []


def _values(inner: JsonValue) -> list[JsonValue]:
    match inner:
        case dict():
            return list(inner.values())
        case list():
            return inner
        case _:
            return []


def _listed(schema: JsonObject) -> list[JsonValue]:
    return _values(schema.get("enum"))
