"""Maps a dialect to its compiler."""

from typing import Literal, assert_never

from services.worker.core.schema.resolved import ResolvedSchema, Unusable, WireSchema
from services.worker.dialects import (
    anthropic,
    gemini,
    llama_cpp,
    ollama,
    openai,
    plain,
    prompted,
    vllm,
)
from services.worker.dialects.compiler.compile import compile_resolved

DialectName = Literal[
    "openai", "anthropic", "gemini", "llama_cpp", "ollama", "plain", "prompted", "vllm"
]


def compile_for(dialect: DialectName, resolved: ResolvedSchema) -> WireSchema | Unusable:
    """The wire schema of `resolved` in a dialect, or why it cannot carry it."""
    match dialect:
        case "openai":
            rules = openai.RULES
        case "anthropic":
            rules = anthropic.RULES
        case "gemini":
            rules = gemini.RULES
        case "llama_cpp":
            rules = llama_cpp.RULES
        case "ollama":
            rules = ollama.RULES
        case "plain":
            rules = plain.RULES
        case "prompted":
            return prompted.compile_schema(resolved)
        case "vllm":
            rules = vllm.RULES
        case _:
            assert_never(dialect)
    return compile_resolved(resolved, rules)
