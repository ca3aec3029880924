"""Reads JSON by a type, at a cost that does not grow with the number of its faults.

Pydantic lists each fault of each item of a list, and a text of 1 MiB has room for a million of
them. In a text that is not small, a list is read up to its first wrong item.
"""

from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema
from typing_extensions import TypeForm

from answerbus.json_values import signs_of_values

ALL_FAULTS_VALUES_MAX: Final = 2_000  # values of a text in which all faults are found

T = TypeVar("T")

_SEQUENCES = {"list", "tuple", "set", "frozenset"}
_BY_NAME = {"fields", "choices"}  # members that hold schemas under names of the type's own
_NO_SCHEMAS = {"cls", "config", "default", "function", "metadata", "serialization"}


class JsonReader(Generic[T]):
    """Reads JSON text by a type, as a TypeAdapter does."""

    def __init__(self, adapter: TypeAdapter[T]) -> None:
        self.adapter = adapter

    @classmethod
    def of(cls, form: TypeForm[T]) -> "JsonReader[T]":
        """The reader of a type, whose validator is built once: keep it."""
        return cls(TypeAdapter(form))

    def validate_json(self, text: bytes, **options: Any) -> T:
        """Raises ValidationError; `options` are those of `validate_json`."""
        if len(text) <= ALL_FAULTS_VALUES_MAX:  # it has fewer values than bytes
            return self.adapter.validate_json(text, **options)
        try:
            found: T = self._fast.validate_json(text, **options)
        except ValidationError:
            if signs_of_values(text) > ALL_FAULTS_VALUES_MAX:
                raise
            return self.adapter.validate_json(text, **options)
        return found

    @cached_property
    def _fast(self) -> SchemaValidator:
        # Each class has a validator of its own, which a schema would use instead of this copy.
        return SchemaValidator(_failing_fast(self.adapter.core_schema), _use_prebuilt=False)


def _failing_fast(schema: Any) -> Any:
    """A copy in which sequences end with their first fault, and mappings are counted first."""
    match schema:
        case list():
            return [_failing_fast(inner) for inner in schema]
        case {"type": str(kind)}:
            copy: Any = {name: _member(name, inner) for name, inner in schema.items()}
            if kind in _SEQUENCES:
                copy["fail_fast"] = True
            if kind == "dict" and "max_length" in schema:
                counted = core_schema.dict_schema(max_length=schema["max_length"])
                return core_schema.chain_schema([counted, copy])
            return copy
        case _:
            return schema


def _member(name: str, inner: Any) -> Any:
    if name in _NO_SCHEMAS:
        return inner
    if name in _BY_NAME and isinstance(inner, dict):
        return {own: _failing_fast(schema) for own, schema in inner.items()}
    return _failing_fast(inner)
