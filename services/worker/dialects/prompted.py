"""The dialect `prompted`: for models without structured output, the schema is put into words."""

import json

from services.worker.core.asked import Asked, WireSchema
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
        decode=asked.from_loose,
        notes=(_NOTE,),
        instructions=(
            "Answer with exactly one JSON document and nothing around it: no words, no code fence. "
            f"It must satisfy this JSON Schema:\n{schema}"
        ),
    )
