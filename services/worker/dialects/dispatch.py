"""Maps a dialect to its compiler."""

from typing import Literal, assert_never

from services.worker.core.schema.resolved import ResolvedSchema, Unusable, WireSchema
from services.worker.dialects import anthropic, gemini, llama_cpp, ollama, openai, prompted, vllm

DialectName = Literal["openai", "anthropic", "gemini", "llama_cpp", "ollama", "prompted", "vllm"]


def compile_for(dialect: DialectName, resolved: ResolvedSchema) -> WireSchema | Unusable:
    """The wire schema of `resolved` in a dialect, or why it cannot carry it."""
    match dialect:
        case "openai":
            return openai.compile_schema(resolved)
        case "anthropic":
            return anthropic.compile_schema(resolved)
        case "gemini":
            return gemini.compile_schema(resolved)
        case "llama_cpp":
            return llama_cpp.compile_schema(resolved)
        case "ollama":
            return ollama.compile_schema(resolved)
        case "prompted":
            return prompted.compile_schema(resolved)
        case "vllm":
            return vllm.compile_schema(resolved)
        case _:
            assert_never(dialect)
