"""The dialect `gemini`: the keywords that Gemini documents for `responseJsonSchema`."""

from services.worker.dialects.compiler.shapes.measure import name_chars
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import JsonObject

DIALECT = "gemini"
LIST_SIZE_MAX = 100  # long lists with a length are named as a cause of "too many states"

# The provider names no limits. What is beyond these it would refuse, after a call.
NAME_CHARS_MAX = 60_000  # of property names and enum values together


def excess(schema: JsonObject) -> str | None:
    """The quantity to reduce, if the wire schema is beyond a limit."""
    if name_chars(schema) > NAME_CHARS_MAX:
        return f"at most {NAME_CHARS_MAX} characters of property names and enum values"
    return None


RULES = Rules(
    dialect=DIALECT,
    excess=excess,
    formats=frozenset(["date-time", "date", "time"]),
    integer_bounds=frozenset(["minimum", "maximum"]),
    number_bounds=frozenset(["minimum", "maximum"]),
    list_sizes={"minItems": LIST_SIZE_MAX, "maxItems": LIST_SIZE_MAX},
    enum_types=frozenset(["string", "number"]),
    omits_optional=True,
    recursion="optional",
)
