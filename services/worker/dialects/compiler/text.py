"""Plain text in any dialect: no schema goes out, and the content is the answer."""

from services.worker.core.schema.resolved import ResolvedSchema, WireSchema


def compile_schema(resolved: ResolvedSchema, dialect: str) -> WireSchema:
    """A call without structured output."""
    return WireSchema(dialect=dialect, name=resolved.name, schema=None, decode=lambda value: value)
