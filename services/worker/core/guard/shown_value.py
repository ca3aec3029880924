"""A value of a request as the text that a model is shown."""

from pydantic import JsonValue
from pydantic_core import to_json

from services.text.nesting import nests_deeper

# Deeper values are on one line: 16,000 numbers at 180 levels are 32 KB, and indented 3 MB.
INDENTED_LEVELS_MAX = 12


def shown_value(value: JsonValue) -> str:
    """Texts are shown as they are."""
    if isinstance(value, str):
        return value
    indent = None if nests_deeper(value, INDENTED_LEVELS_MAX) else 1
    return to_json(value, indent=indent).decode()
