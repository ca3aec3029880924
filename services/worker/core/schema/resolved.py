"""A resolved schema: the rules of an answer, and the value that reading it gives."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from pydantic import JsonValue

from answerbus import failure
from answerbus.call_outcome import CallOutcome
from answerbus.contract import Declined
from answerbus.dead_letter import HostileSchema, UnknownSchema, UnsupportedSchema
from answerbus.failure import Problem
from answerbus.request import SchemaId
from services.text.digest import canonical_digest, text_digest

JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which of several answers was chosen: by the call that gave it, and why."""

    call_id: str
    reference: str
    reason: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A valid answer: what is published, and what is for the audit alone.

    `chosen` is there where others gave the answer.
    """

    answer: JsonValue
    declined: Declined | None = None
    rationale: str | None = None
    notes: tuple[str, ...] = ()
    chosen: Chosen | None = None


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A tool call that a model wants; `outcome` where it cannot even be made.

    The digest takes as long as the arguments are large: it is made here, where an answer is
    checked, since its lane does nothing else while a step is settled.
    """

    tool: str
    args: JsonObject
    outcome: CallOutcome | None = None
    args_digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "args_digest", canonical_digest(self.args))


@dataclass(frozen=True, slots=True)
class AcceptedStep:
    """A valid answer of a run that is not its end; `thoughts` are for the audit alone."""

    said: tuple[str, ...]
    calls: tuple[WantedCall, ...]
    thoughts: tuple[str, ...]
    rationale: str | None


def as_it_is(value: JsonValue) -> JsonValue:
    return value


def without_notes(answer: JsonValue, _: tuple[str, ...]) -> JsonValue:
    """An answer that has no place for them."""
    return answer


def whole(value: JsonValue, _: int) -> tuple[JsonValue, tuple[Problem, ...]]:
    """Leave nothing out: the answer has no parts that end alone."""
    return value, ()


@dataclass(frozen=True, slots=True)
class DecodedAnswer:
    """The answer that was meant by what was written, and what was dropped on the way to it.

    Where texts in it are not the JSON texts that their places want, `faults` are these places, and
    `partly` is the answer with these texts as they were written. `read` is what reading the answer
    gave, where that was done already.
    """

    answer: JsonValue | failure.Invalid
    remarks: tuple[str, ...] = ()
    partly: JsonValue = None
    faults: tuple[Problem, ...] = ()
    read: Accepted | AcceptedStep | failure.Invalid | None = None


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """The authority on one schema reference.

    `schema` is what a model is asked to satisfy (None for plain text), `read` the full check of a
    decoded answer. Fields in `audit_only` are never published or shown to a model again.
    `from_text` makes an answer of text where the contract has a text variant. `from_loose` reads
    forms that are allowed only where no provider enforces the schema. `add_notes` puts the worker's
    notes into a published answer that has a place for them. `malformed_is_text`: what is not JSON
    is such text at once. `shown` is what of an answer may be shown again, beside audit-only fields.
    `read_published` reads an answer once more after it was published, where that differs.
    `is_answer` is false where what a model writes is never the answer itself. `read_partly` reads
    an answer with some faulty places, where a part can fail alone; `without_deep` leaves
    out parts that nest deeper than so many levels, and gives their faults. `pattern_bytes` is
    the memory of the automata of its patterns.
    """

    id: SchemaId
    name: str
    description: str
    schema: JsonObject | None
    read: Callable[[JsonValue], Accepted | AcceptedStep | failure.Invalid]
    audit_only: frozenset[str] = frozenset()
    from_text: Callable[[str], Accepted | failure.Invalid] | None = None
    from_loose: Callable[[JsonValue], JsonValue] = as_it_is
    add_notes: Callable[[JsonValue, tuple[str, ...]], JsonValue] = without_notes
    malformed_is_text: bool = False
    pattern_bytes: int = 0
    shown: Callable[[JsonValue], JsonValue] = as_it_is
    read_published: Callable[[JsonValue], Accepted | failure.Invalid] | None = None
    is_answer: bool = True
    read_partly: (
        Callable[[JsonValue, tuple[Problem, ...]], Accepted | AcceptedStep | failure.Invalid] | None
    ) = None
    without_deep: Callable[[JsonValue, int], tuple[JsonValue, tuple[Problem, ...]]] = whole

    def is_valid(self, published: JsonValue) -> bool:
        """Whether an answer that was published satisfies it."""
        return isinstance((self.read_published or self.read)(published), Accepted)

    @property
    def hides_some(self) -> bool:
        """Whether a part of an answer is for auditors alone."""
        return bool(self.audit_only) or self.shown is not as_it_is


@dataclass(frozen=True, slots=True)
class Unusable:
    """The schema cannot be asked for; nothing is spent on it."""

    cause: UnknownSchema | HostileSchema | UnsupportedSchema


@dataclass(frozen=True)
class WireSchema:
    """An resolved schema compiled to a dialect.

    `schema` goes to the provider (None where it takes none: plain text, or `prompted`, which puts
    it into `instructions`). `shown` is what a model sees in its prompt, if not `schema` itself.
    `read` undoes what compiling did to an answer's shape. `read_otherwise` is the other meaning of
    what was written, where null and "left out" are written alike. `notes` list each rule that the
    provider will not enforce.
    """

    dialect: str
    name: str
    schema: JsonObject | None
    read: Callable[[JsonValue], DecodedAnswer] = DecodedAnswer
    read_otherwise: Callable[[JsonValue], DecodedAnswer] | None = None
    shown: JsonObject | None = None
    notes: tuple[str, ...] = ()
    instructions: str = ""

    def decode(self, value: JsonValue) -> JsonValue | failure.Invalid:
        """The answer that was written as `value`."""
        return self.read(value).answer

    @cached_property
    def text(self) -> str:
        """The schema as it is sent; empty where none is."""
        return _compact(self.schema)

    @cached_property
    def shown_text(self) -> str:
        """The schema as a model reads it; empty where there is none."""
        return _compact(self.shown or self.schema)

    @cached_property
    def digest(self) -> str | None:
        """SHA-256 of that, for the audit."""
        return text_digest(self.text) if self.text else None


def _compact(schema: JsonObject | None) -> str:
    return "" if schema is None else json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
