"""Which compiler serves a dialect."""

from typing import Literal, assert_never

from services.worker.core.asked import Asked, Unusable, WireSchema
from services.worker.dialects import anthropic, gemini, llama_cpp, ollama, openai, prompted

DialectName = Literal["openai", "anthropic", "gemini", "llama_cpp", "ollama", "prompted"]


def compile_for(dialect: DialectName, asked: Asked) -> WireSchema | Unusable:
    """The wire schema of `asked` in a dialect, or why it cannot carry it."""
    match dialect:
        case "openai":
            return openai.compile_schema(asked)
        case "anthropic":
            return anthropic.compile_schema(asked)
        case "gemini":
            return gemini.compile_schema(asked)
        case "llama_cpp":
            return llama_cpp.compile_schema(asked)
        case "ollama":
            return ollama.compile_schema(asked)
        case "prompted":
            return prompted.compile_schema(asked)
        case _:
            assert_never(dialect)
