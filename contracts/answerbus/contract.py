"""A contract: a closed Pydantic type for answers, with a name, a version and its rules."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, JsonValue, TypeAdapter
from pydantic_core import CoreSchema
from typing_extensions import TypeForm

from answerbus.fail_fast import JsonReader
from answerbus.request import ContractId, ContractRef
from answerbus.strictness import read_python_as_json
from answerbus.wire import bytes_digest

AnswerT = TypeVar("AnswerT")
BuiltT = TypeVar("BuiltT")


class Closed(BaseModel):
    """The parent of the objects in answers: frozen, strict, and without unknown members."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", serialize_by_alias=True)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """See strictness.py."""
        return read_python_as_json(handler(source), handler)


@dataclass(frozen=True, slots=True)
class Declined:
    """What a refusing variant says: words for people, and the contract's own category."""

    reason: str
    category: str | None


def _never_declines(_: Any) -> Declined | None:
    return None


def _as_it_is(value: JsonValue) -> JsonValue:
    return value


@dataclass(frozen=True)
class Contract(Generic[AnswerT]):
    """The type that is published, the type that models are asked for, and what sets them apart.

    `asked` is `answer` with the audit-only fields: models must fill them in, and they go to the
    Attempt alone. `declines` recognises a refusing variant. `result` is `answer` without refusing
    variants, for the type of results: a refusal is an event of its own. `from_text` makes a
    published answer of plain text where the contract has a text variant (and no audit-only fields).
    `from_loose` reads other forms of an answer that a model may use where its provider enforces no
    schema, and leaves all else as it is. `examples` are published answers, for people to look at.
    """

    name: str
    version: int
    answer: TypeForm[AnswerT]
    asked: TypeForm[Any]
    summary: str
    result: TypeForm[Any] | None = None  # None: `answer` has no refusing variant
    audit_only: frozenset[str] = frozenset()
    declines: Callable[[Any], Declined | None] = _never_declines
    from_text: Callable[[str], JsonValue] | None = None
    from_loose: Callable[[JsonValue], JsonValue] = _as_it_is
    examples: tuple[JsonValue, ...] = ()
    _built: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.audit_only and self.from_text:
            # A text is published whole, and may hold what a model meant to be audit-only.
            raise ValueError(f"contract {self.name}: audit-only fields and a text variant")

    @property
    def ref(self) -> ContractRef:
        """The schema reference of requests for this contract."""
        return ContractRef(name=self.name, version=self.version)

    @property
    def id(self) -> ContractId:
        """The schema reference of results of this contract."""
        return ContractId(name=self.name, version=self.version, digest=digest_of(self.schema()))

    def schema(self) -> dict[str, JsonValue]:
        """The JSON Schema of published answers; not to be changed."""
        return self._once("schema", lambda: self._named(self.adapter.json_schema(), ""))

    def asked_schema(self) -> dict[str, JsonValue]:
        """The JSON Schema that models are asked to satisfy; not to be changed."""
        return self._once(
            "asked_schema", lambda: self._named(self.asked_adapter.json_schema(), ":asked")
        )

    @property
    def reader(self) -> JsonReader[AnswerT]:
        """From JSON bytes to a published answer; reading raises ValidationError."""
        return self._once("reader", lambda: JsonReader(self.adapter))

    @property
    def asked_reader(self) -> JsonReader[Any]:
        """The same for what a model answers, before anything is taken out of it."""
        return self._once("asked_reader", lambda: JsonReader(self.asked_adapter))

    @property
    def adapter(self) -> TypeAdapter[AnswerT]:
        """Validates and writes published answers; raises ValidationError."""
        return self._once("adapter", lambda: TypeAdapter(self.answer))

    @property
    def asked_adapter(self) -> TypeAdapter[Any]:
        """Validates what a model answers; raises ValidationError."""
        return self._once("asked_adapter", lambda: TypeAdapter(self.asked))

    def _once(self, name: str, build: Callable[[], BuiltT]) -> BuiltT:
        # Built on first use, since importing a module must do nothing, and never again, so that
        # a contract stays what it is even if the classes it was made of change later.
        if name not in self._built:
            self._built[name] = build()
        built: BuiltT = self._built[name]
        return built

    def _named(self, schema: Mapping[str, Any], suffix: str) -> dict[str, JsonValue]:
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": f"urn:answerbus:contract:{self.name}.v{self.version}{suffix}",
            **schema,
        }


def digest_of(schema: JsonValue) -> str:
    """SHA-256 over the canonical JSON of a schema of ours, which holds no floats (see RFC 8785)."""
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return bytes_digest(text.encode())
