"""The dialect `ollama`: an Ollama server makes its grammars with llama.cpp's own code."""

from dataclasses import replace

from services.worker.core.schema.resolved import ResolvedSchema, Unusable, WireSchema
from services.worker.dialects import llama_cpp
from services.worker.dialects.compiler.compile import compile_resolved
from services.worker.dialects.compiler.shapes.measure import names_in, schemas_in
from services.worker.dialects.compiler.shapes.shape import JsonObject

DIALECT = "ollama"
RULES = replace(llama_cpp.RULES, dialect=DIALECT)


def compile_schema(resolved: ResolvedSchema) -> WireSchema | Unusable:
    """The wire schema of `resolved`, or why this dialect cannot carry it."""
    return compile_resolved(resolved, RULES, excess)


def excess(schema: JsonObject) -> str | None:
    """The quantity to reduce, if the wire schema is beyond a limit."""
    if any("$ref" in names_in(inner.get("properties")) for inner, _ in schemas_in(schema)):
        return "no member of the name `$ref`, which this provider takes for a reference"
    return llama_cpp.excess(schema)
