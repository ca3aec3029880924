"""The dialect `ollama`: types, members and choices, which is what its grammars surely enforce."""

from services.worker.core.asked import Asked, Unusable, WireSchema
from services.worker.dialects.rules import Rules
from services.worker.dialects.shape import JsonObject
from services.worker.dialects.wire import compile_asked

DIALECT = "ollama"
RULES = Rules(dialect=DIALECT, recursion="nowhere")


def compile_schema(asked: Asked) -> WireSchema | Unusable:
    """The wire schema of `asked`, or why this dialect cannot carry it."""
    return compile_asked(asked, RULES, excess)


def excess(_schema: JsonObject) -> str | None:
    """A server with models of its own names no limits."""
    return None
