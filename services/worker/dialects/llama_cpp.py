"""The dialect `llama_cpp`: the keywords that the grammars of llama.cpp enforce."""

from services.worker.dialects.compiler.patterns import FORMAT_PATTERNS, spelled_out
from services.worker.dialects.compiler.shapes.measure import name_chars, names_in, schemas_in
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.compiler.shapes.shape import JsonObject

DIALECT = "llama_cpp"

# A server refuses larger grammars, after a call; measured, each with room to spare.
SIZE_MAX = 1_000  # of lists and texts: 2,000 repetitions were too many
INTEGER_MAX = 10**16 - 1  # a grammar's integers have no more digits
OPEN_NAME_CHARS_MAX = 900  # any other name is spelled out as what it is not: 1,400 were too many
MEMBERS_MAX = 500  # of one object: of 1,000 optional ones a server makes a grammar for 6 s
NAME_CHARS_MAX = 120_000  # of property names and values to choose from, in all of a schema


def excess(schema: JsonObject) -> str | None:
    """The quantity to reduce, if the wire schema is beyond a limit."""
    if max(len(names_in(inner.get("properties"))) for inner, _ in schemas_in(schema)) > MEMBERS_MAX:
        return f"at most {MEMBERS_MAX} members in one object"
    if name_chars(schema) > NAME_CHARS_MAX:
        return f"at most {NAME_CHARS_MAX} characters of property names and enum values"
    return None


RULES = Rules(
    dialect=DIALECT,
    excess=excess,
    formats=frozenset(["uuid", *FORMAT_PATTERNS]),
    format_patterns=FORMAT_PATTERNS,
    pattern=spelled_out,
    integer_bounds=frozenset(["minimum", "maximum"]),
    integer_max=INTEGER_MAX,
    text_lengths={"minLength": SIZE_MAX, "maxLength": SIZE_MAX},
    list_sizes={"minItems": SIZE_MAX, "maxItems": SIZE_MAX},
    one_text_rule=True,
    open_name_chars_max=OPEN_NAME_CHARS_MAX,
    omits_optional=True,
    verbatim=True,
)
