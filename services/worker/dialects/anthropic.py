"""The dialect `anthropic`: the keywords that Claude's structured output enforces."""

from services.worker.dialects.compiler.shapes.measure import optional_members, unions
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import JsonObject

DIALECT = "anthropic"

# What the provider's documentation names, each for a whole schema.
OPTIONAL_MAX = 24
UNIONS_MAX = 16  # `anyOf`, or a list of types

FORMATS = frozenset(
    "date-time time date duration email hostname uri ipv4 ipv6 uuid".split()  # noqa: SIM905
)


def excess(schema: JsonObject) -> str | None:
    """The quantity to reduce, if the wire schema is beyond a limit."""
    optional, several = optional_members(schema), unions(schema)
    if optional > OPTIONAL_MAX:
        return f"at most {OPTIONAL_MAX} optional members; it comes to {optional} here"
    if several > UNIONS_MAX:
        return f"at most {UNIONS_MAX} members of several types; it comes to {several} here"
    return None


RULES = Rules(
    dialect=DIALECT,
    excess=excess,
    formats=FORMATS,
    list_sizes={"minItems": 1},
    omits_optional=True,
    recursion="nowhere",
    optional_max=OPTIONAL_MAX,
    unions_max=UNIONS_MAX,
    any_case=True,
)
