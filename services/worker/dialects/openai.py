"""The dialect `openai`: the strict subset of OpenAI and of servers compatible with it."""

from collections.abc import Sequence

from pydantic import JsonValue

from services.worker.dialects.compiler.parsing.bounds import NUMBER_BOUNDS
from services.worker.dialects.compiler.patterns import portable
from services.worker.dialects.compiler.shapes.measure import names_in, schemas_in, values_in
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import JsonObject

DIALECT = "openai"
LIST_SIZE_MAX = 1000  # larger ones would grow a grammar beyond its limits

# What the provider's documentation names.
PROPERTIES_MAX = 5_000
LEVELS_MAX = 10  # of objects in objects; a reference starts again at 0
NAME_CHARS_MAX = 120_000  # of property names, definition names and enum values together
ENUM_VALUES_MAX = 1_000
ENUM_CHARS_MAX = 15_000  # of one enum of texts with more values than
ENUM_SHORT = 250


def excess(schema: JsonObject) -> str | None:
    """The quantity to reduce, if the wire schema is beyond a limit."""
    schemas = list(schemas_in(schema))
    properties = [name for inner, _ in schemas for name in names_in(inner.get("properties"))]
    enums = [value for inner, _ in schemas for value in values_in(inner.get("enum"))]
    texts = [*properties, *names_in(schema.get("$defs")), *map(str, enums)]
    if len(properties) > PROPERTIES_MAX:
        return f"at most {PROPERTIES_MAX} properties; it comes to {len(properties)} here"
    if max(level for _, level in schemas) > LEVELS_MAX:
        return f"at most {LEVELS_MAX} levels of objects in objects; inner ones fit into $defs"
    if sum(map(len, texts)) > NAME_CHARS_MAX:
        return f"at most {NAME_CHARS_MAX} characters of property names and enum values"
    if len(enums) > ENUM_VALUES_MAX:
        return f"at most {ENUM_VALUES_MAX} enum values; it comes to {len(enums)} here"
    return None


def is_long_enum(values: Sequence[JsonValue]) -> bool:
    """Whether the provider refuses a schema with this list of values to choose from."""
    texts = [value for value in values if isinstance(value, str)]
    return len(texts) > ENUM_SHORT and sum(map(len, texts)) > ENUM_CHARS_MAX


RULES = Rules(
    dialect=DIALECT,
    excess=excess,
    is_long_enum=is_long_enum,
    formats=frozenset(
        ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]
    ),
    pattern=portable,
    integer_bounds=NUMBER_BOUNDS,
    number_bounds=NUMBER_BOUNDS,
    list_sizes={"minItems": LIST_SIZE_MAX, "maxItems": LIST_SIZE_MAX},
)
