"""Compiled schemas, kept for the next request that asks for the same."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pydantic_core import to_json

from answerbus.registry import Registry
from answerbus.request import InlineRef, SchemaRef
from services.text.digest import text_digest
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, Unusable, WireSchema
from services.worker.dialects.dispatch import DialectName, compile_for

# Bytes of schema text. What is compiled from it takes some 15 times as much memory, beside the
# automata of its patterns.
CACHE_BYTES_MAX = 8 * 1024 * 1024
MEMORY_PER_BYTE = 15
_ENTRY_BYTES_MIN = 1024  # even the smallest entry holds objects of about that worth

Compiled = tuple[ResolvedSchema, WireSchema] | Unusable
Reading = tuple[str, Callable[[], ResolvedSchema | Unusable]]
"""The text that a schema is kept under, and how it is resolved."""


@dataclass(frozen=True, slots=True)
class _Entry:
    compiled: Compiled
    bytes: int


class SchemaCache:
    """The least recently used give way; refusals are kept too, as their senders come again."""

    def __init__(self, registry: Registry, bytes_max: int = CACHE_BYTES_MAX) -> None:
        """Looks contracts up in `registry`."""
        self.registry = registry
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: OrderedDict[tuple[str, DialectName], _Entry] = OrderedDict()

    def compiled(self, ref: SchemaRef, dialect: DialectName) -> Compiled:
        """The authority on `ref` and its wire schema in `dialect`, or why there is none."""
        return self.kept(*self.reading(ref), dialect)

    def kept(
        self, text: str, resolved: Callable[[], ResolvedSchema | Unusable], dialect: DialectName
    ) -> Compiled:
        """The same of what `resolved` makes, for all that say `text`."""
        found = self.find(text, dialect)
        if found is None:
            found = compiled_for(resolved, dialect)
            self.take(text, dialect, found)
        return found

    def reading(self, ref: SchemaRef) -> Reading:
        """The text that `ref` is kept under, and how it is resolved."""
        return _text(ref), partial(resolve, ref, self.registry)

    def find(self, text: str, dialect: DialectName) -> Compiled | None:
        """The entry of all requests that say `text`."""
        key = text_digest(text), dialect
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key].compiled

    def take(self, text: str, dialect: DialectName, compiled: Compiled) -> None:
        # A refusal holds no compiled schema, so that large hostile ones push nothing out.
        size = 0 if isinstance(compiled, Unusable) else _size(text, *compiled)
        self._keep((text_digest(text), dialect), _Entry(compiled, max(size, _ENTRY_BYTES_MIN)))

    def _keep(self, key: tuple[str, DialectName], entry: _Entry) -> None:
        if entry.bytes > self._bytes_max or key in self._entries:
            return
        self._entries[key] = entry
        self._bytes += entry.bytes
        while self._bytes > self._bytes_max:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= oldest.bytes


def compiled_for(
    resolved: Callable[[], ResolvedSchema | Unusable], dialect: DialectName
) -> Compiled:
    """The compiled schema of `resolved`, with its wire schema in `dialect`."""
    resolved_schema = resolved()
    if isinstance(resolved_schema, Unusable):
        return resolved_schema
    wire = compile_for(dialect, resolved_schema)
    return wire if isinstance(wire, Unusable) else (resolved_schema, wire)


def _size(text: str, resolved: ResolvedSchema, wire: WireSchema) -> int:
    """As bytes of text: its own, or of the wire schema, which merging may have made larger."""
    kept = max(len(text.encode()), len(wire.text) + len(wire.instructions))
    return kept + resolved.pattern_bytes // MEMORY_PER_BYTE


def _text(ref: SchemaRef) -> str:
    """A text that two references share exactly if one compilation serves both."""
    if isinstance(ref, InlineRef):
        parts = [ref.name, ref.description, ref.wrapped, ref.json_schema]
        return to_json(parts).decode()
    return ref.model_dump_json()
