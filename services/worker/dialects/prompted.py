"""The dialect `prompted`: for models without structured output, the schema is put into words."""

import json
from functools import partial

from pydantic import JsonValue

from services.worker.core.asked import Accepted, Asked, WireSchema
from services.worker.dialects import text

DIALECT = "prompted"
_NOTE = "the schema is only told to the model, not enforced by its provider; checked after"


def compile_schema(asked: Asked) -> WireSchema:
    """The authority schema itself, as instructions."""
    if asked.schema is None:
        return text.compile_schema(asked, DIALECT)
    schema = json.dumps(asked.schema, ensure_ascii=False, separators=(",", ":"))
    return WireSchema(
        dialect=DIALECT,
        name=asked.name,
        schema=None,
        decode=partial(_decode, asked),
        notes=(_NOTE,),
        instructions=(
            "Answer with exactly one JSON document and nothing around it: no words, no code fence. "
            f"It must satisfy this JSON Schema:\n{schema}"
        ),
    )


def _decode(asked: Asked, value: JsonValue) -> JsonValue:
    """The answer that was meant: another form of one only where it is none as it is written."""
    return value if isinstance(asked.read(value), Accepted) else asked.from_loose(value)
