"""The dialect `ollama`: an Ollama server makes its grammars with llama.cpp's own code."""

from dataclasses import replace

from services.worker.dialects import llama_cpp
from services.worker.dialects.compiler.shapes.measure import names_in, schemas_in
from services.worker.dialects.compiler.shapes.shape import JsonObject

DIALECT = "ollama"


def excess(schema: JsonObject) -> str | None:
    """The quantity to reduce, if the wire schema is beyond a limit."""
    if any("$ref" in names_in(inner.get("properties")) for inner, _ in schemas_in(schema)):
        return "no member of the name `$ref`, which this provider takes for a reference"
    return llama_cpp.excess(schema)


RULES = replace(llama_cpp.RULES, dialect=DIALECT, excess=excess)
