"""Reads JSON by a type, at a cost that does not grow with the number of its faults.

Pydantic lists each fault of each item of a list, and a text of 1 MiB has room for a million of
them; for each missing member it copies the object that lacks it. A text that is not small is read
up to the first wrong item of a list, and up to its first missing member.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Generic, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, SchemaValidator, core_schema, from_json
from typing_extensions import TypeForm

from answerbus.json_values import signs_of_values

ALL_FAULTS_VALUES_MAX: Final = 2_000  # values of a text in which all faults are found

T = TypeVar("T")

_SEQUENCES = {"list", "tuple", "set", "frozenset"}
_BY_NAME = {"fields", "choices"}  # members that hold schemas under names of the type's own
_NO_SCHEMAS = {"cls", "config", "default", "function", "metadata", "serialization"}
# By these a text may be valid without a member: by another choice, or by a function of the type's.
_FORGIVING = {"union", "function-wrap", "generator"}


class _MissingMemberError(Exception):
    """No ValueError, which pydantic would list before it reads on."""


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
        except _MissingMemberError:
            if signs_of_values(text) > ALL_FAULTS_VALUES_MAX:
                self._raise_missing(text, options)
        else:
            return found
        return self.adapter.validate_json(text, **options)

    def _raise_missing(self, text: bytes, options: Mapping[str, Any]) -> None:
        """Faults in Python data refer to the objects that lack members, where these are read."""
        try:
            self._fast_with_missing.validate_python(from_json(text), **options)
        except ValidationError as error:
            # The others may be no faults in JSON.
            found = [
                InitErrorDetails(type=fault["type"], loc=fault["loc"], input=fault["input"])
                for fault in error.errors(include_url=False, include_context=False)
                if fault["type"] == "missing"
            ]
            if found:
                raise ValidationError.from_exception_data(error.title, found, "json") from None

    @cached_property
    def _fast(self) -> SchemaValidator:
        return _failing_fast(self.adapter.core_schema, ends_at_missing=True)

    @cached_property
    def _fast_with_missing(self) -> SchemaValidator:
        return _failing_fast(self.adapter.core_schema, ends_at_missing=False)


def _failing_fast(schema: Any, *, ends_at_missing: bool) -> SchemaValidator:
    """Sequences end with their first fault, and mappings are counted first.

    `ends_at_missing`: reading ends with _MissingMemberError, where a member must not be missing.
    """
    copying = _Copying(schema, ends_at_missing=ends_at_missing)
    # Each class has a validator of its own, which a schema would use instead of this copy.
    return SchemaValidator(copying.copy(schema), _use_prebuilt=False)


class _Copying:
    """Copies a schema, and what it refers to, for `_failing_fast`."""

    def __init__(self, schema: Any, *, ends_at_missing: bool) -> None:
        self._definitions: dict[str, Any] = {}  # none is known while they are looked for
        self._definitions |= {one["ref"]: one for one in self._nodes(schema) if "ref" in one}
        self._ends_at_missing = ends_at_missing and not any(
            node["type"] in _FORGIVING and self._has_fields(node) for node in self._nodes(schema)
        )

    def copy(self, schema: Any) -> Any:
        match schema:
            case list():
                return [self.copy(inner) for inner in schema]
            case {"type": str(kind)}:
                copy: Any = {name: self._member(name, inner) for name, inner in schema.items()}
                if kind in _SEQUENCES:
                    copy["fail_fast"] = True
                if kind == "model-field" and self._ends_at_missing:
                    copy["schema"] = self._needed(schema["schema"], copy["schema"])
                if kind == "dict" and "max_length" in schema:
                    counted = core_schema.dict_schema(max_length=schema["max_length"])
                    return core_schema.chain_schema([counted, copy], ref=copy.pop("ref", None))
                return copy
            case _:
                return schema

    def _member(self, name: str, inner: Any) -> Any:
        if name in _NO_SCHEMAS:
            return inner
        if name in _BY_NAME and isinstance(inner, dict):
            return {own: self.copy(schema) for own, schema in inner.items()}
        return self.copy(inner)

    def _needed(self, schema: Any, copy: Any) -> Any:
        if self._may_lack(schema):
            return copy
        return core_schema.with_default_schema(copy, default_factory=_end_reading)

    def _may_lack(self, schema: Any) -> bool:
        """Whether a field of this schema has a default; pydantic looks for it no deeper."""
        match schema:
            case {"type": "default"}:
                return True
            case {"type": "definition-ref", "schema_ref": ref}:
                return self._may_lack(self._definitions.get(ref))
            case {"type": "chain", "steps": [only]}:
                return self._may_lack(only)
            case _:
                return False

    def _has_fields(self, schema: Any) -> bool:
        return any(node["type"] == "model-field" for node in self._nodes(schema))

    def _nodes(self, schema: Any) -> Iterator[dict[str, Any]]:
        """All schemas in it, also those that it refers to."""
        left, seen = [schema], set[str]()
        while left:
            match left.pop():
                case {"type": "definition-ref", "schema_ref": ref}:
                    if ref not in seen:
                        seen.add(ref)
                        left.append(self._definitions.get(ref))
                case {"type": str()} as node:
                    yield node
                    left += (inner for name, inner in node.items() if name not in _NO_SCHEMAS)
                case dict() as named:
                    left += named.values()
                case list() | tuple() as several:
                    left += several
                case _:
                    pass


def _end_reading() -> NoReturn:
    raise _MissingMemberError
