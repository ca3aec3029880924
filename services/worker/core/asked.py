"""What an answer must satisfy, once its schema reference is resolved, and what reading one gives."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

from answerbus import failure
from answerbus.contract import Declined
from answerbus.dead_letter import HostileSchema, UnknownSchema, UnsupportedSchema
from answerbus.request import SchemaId

JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A valid answer: what is published, and what is for the audit alone."""

    answer: JsonValue
    declined: Declined | None = None
    rationale: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """The authority on one schema reference.

    `schema` is what a model is asked to satisfy (None for plain text), `read` the full check of a
    decoded answer. Fields in `audit_only` are never published or shown to a model again. `from_text` makes an answer of text where the contract has a text variant.
    """

    id: SchemaId
    name: str
    description: str
    schema: JsonObject | None
    read: Callable[[JsonValue], Accepted | failure.Invalid]
    audit_only: frozenset[str] = frozenset()
    from_text: Callable[[str], JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Unusable:
    """The schema cannot be asked for; nothing is spent on it."""

    cause: UnknownSchema | HostileSchema | UnsupportedSchema


@dataclass(frozen=True, slots=True)
class WireSchema:
    """An authority schema compiled to a dialect.

    `schema` goes to the provider (None where it takes none: plain text, or `prompted`, which puts
    it into `instructions`). `decode` undoes what compiling did to an answer's shape. `notes` list
    each rule that the provider will not enforce.
    """

    dialect: str
    name: str
    schema: JsonObject | None
    decode: Callable[[JsonValue], JsonValue | failure.Invalid]
    notes: tuple[str, ...] = ()
    instructions: str = ""

    @property
    def digest(self) -> str | None:
        """SHA-256 of the schema as it is sent, if one is."""
        if self.schema is None:
            return None
        text = json.dumps(self.schema, separators=(",", ":"), ensure_ascii=False)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
