"""Plain text in any dialect: no schema goes out, and the content is the answer."""

from services.worker.core.asked import Asked, WireSchema


def compile_schema(asked: Asked, dialect: str) -> WireSchema:
    """A call without structured output."""
    return WireSchema(dialect=dialect, name=asked.name, schema=None, decode=lambda value: value)
