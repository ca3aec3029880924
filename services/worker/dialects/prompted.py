"""The dialect `prompted`: for models without structured output, the schema is put into words."""

import json
from functools import partial
from typing import assert_never

from pydantic import JsonValue

from answerbus.failure import Invalid
from services.worker.core.json_schema.document import Document
from services.worker.core.schema.resolved import (
    Accepted,
    AcceptedStep,
    DecodedAnswer,
    ResolvedSchema,
    WireSchema,
)
from services.worker.core.schema.tags import with_tags
from services.worker.dialects.compiler.compile import compile_text

DIALECT = "prompted"
_NOTE = "the schema is only shown to the model, not enforced by its provider; checked after"


def compile_schema(resolved: ResolvedSchema) -> WireSchema:
    """The resolved schema itself, as instructions."""
    if resolved.schema is None:
        return compile_text(resolved, DIALECT)
    schema = json.dumps(resolved.schema, ensure_ascii=False, separators=(",", ":"))
    return WireSchema(
        dialect=DIALECT,
        name=resolved.name,
        schema=None,
        read=partial(_read, resolved, Document(resolved.schema)),
        notes=(_NOTE,),
        instructions=(
            "Answer with exactly one JSON document and nothing around it: no words, no code fence. "
            f"It must satisfy this JSON Schema:\n{schema}"
        ),
    )


def _read(resolved: ResolvedSchema, document: Document, value: JsonValue) -> DecodedAnswer:
    """The answer that was meant; other forms are tried only where it is invalid as written."""
    read = resolved.read(value)
    if _is_accepted(read):
        return DecodedAnswer(value, read=read)
    meant = with_tags(document, resolved.from_loose(value))
    return DecodedAnswer(meant, read=read if meant == value else None)


def _is_accepted(read: Accepted | AcceptedStep | Invalid) -> bool:
    """Of a step, whether each of its calls can be made."""
    match read:
        case Accepted():
            return True
        case AcceptedStep(calls=calls):
            return all(call.outcome is None for call in calls)
        case Invalid():
            return False
        case _:
            assert_never(read)
