"""The full check of answers to an inline schema: compiled once, bounded in time and memory."""

from dataclasses import dataclass
from itertools import islice

import jsonschema_rs
from pydantic import JsonValue
from pydantic_core import to_json

from answerbus.failure import Problem
from answerbus.limits import PROBLEMS_MAX
from services.worker.core.guard.cost import AUTOMATON_BYTE_NS, WorkBound
from services.worker.core.guard.effort import LOOP_NS, TooMuchWorkError, affordable, spend
from services.worker.core.guard.hostile import Refusal, admit, hostile
from services.worker.core.guard.patterns import (
    AUTOMATON_BYTES_STEPS,
    automaton_options,
    patterns_of,
    rewriting_ns,
    weigh,
)
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.embed import without_ids
from services.worker.core.json_schema.keywords import AnySchema
from services.worker.core.schema.problems import explain
from services.worker.core.schema.tags import name_tags

# Bounds on what is done at all; where an event loop waits there is less time (guard/effort.py).
CHECK_NS_MAX = 500_000_000
FINDINGS_NS_MAX = 500_000_000  # about 250 MB
SCHEMA_NS = 60_000  # of admitting and weighing one schema of those in a schema
CONTAINER_NS = 8_000  # of any object or list in it
_SIMPLER = Problem.of("", "too_costly", "a smaller or simpler schema: it takes too long")


@dataclass(frozen=True, slots=True)
class SchemaValidator:
    """One compiled schema. Made by `compile_schema` alone."""

    document: Document
    _validator: jsonschema_rs.Validator | None  # None: it is compiled where no event loop waits
    _bound: WorkBound

    @property
    def pattern_bytes(self) -> int:
        """The memory of the automata of its patterns."""
        return self._bound.pattern_bytes

    def __reduce__(self) -> tuple[object, ...]:
        """A compiled schema cannot leave its process, and is compiled again in another."""
        return _arrived, (self.document, self._bound)

    def is_valid(self, value: JsonValue) -> bool:
        """Whether `value` satisfies the schema. Raises TooMuchWorkError as `problems` does.

        Also where work is not limited, if the value is too large to be checked at all.
        """
        work = self._bound.cost_of_check(value, affordable(CHECK_NS_MAX))
        spend(work)
        if work > CHECK_NS_MAX or self._validator is None:
            raise TooMuchWorkError
        return self._validator.is_valid(value)

    def problems(self, value: JsonValue) -> tuple[Problem, ...]:
        """The problems of `value`; empty exactly if it satisfies the schema.

        Raises TooMuchWorkError where an event loop waits and this would hold it for too long.
        """
        if self._validator is None:
            spend(self._bound.compile_ns)
        work = self._bound.cost_of_check(value, affordable(CHECK_NS_MAX))
        spend(work)
        validator = self._validator or _native(self.document)
        if work > CHECK_NS_MAX:
            expected = "a smaller value: this one is too large to be checked against the schema"
            return (Problem.of("", "too_costly", expected),)
        if validator.is_valid(value):
            return ()
        work = self._bound.cost_of_findings(value, affordable(FINDINGS_NS_MAX))
        spend(work)
        if work > FINDINGS_NS_MAX:
            expected = "a value that satisfies the schema; it is too large to say where it does not"
            return (Problem.of("", "schema", expected),)
        found = explain(validator.iter_errors(value), PROBLEMS_MAX, self.document.root)
        return name_tags(found, self.document, value)


def compile_schema(schema: AnySchema, most_ns: int | None = None) -> SchemaValidator | Refusal:
    """Guards and compiles a schema from outside; one that takes longer than `most_ns` is refused.

    Nothing is fetched and no file is read; formats are checked; regular expressions run on an
    engine that is linear in the text.
    """
    document = admit(schema)
    if not isinstance(document, Document):
        return document
    bound = _bounded(document, most_ns)
    if isinstance(bound, Problem):
        return hostile(bound)
    try:
        return SchemaValidator(document, _native(document), bound)
    except jsonschema_rs.ValidationError as error:
        return hostile(_fault(error))


def too_costly(schema: AnySchema, most_ns: int) -> Problem | None:
    """Why it may take longer to compile a schema; of one that is refused, nothing is said.

    To find that out takes no longer itself.
    """
    document = admit(schema)
    bound = _bounded(document, most_ns) if isinstance(document, Document) else None
    return bound if isinstance(bound, Problem) else None


def too_large(schema: AnySchema, most_ns: int) -> Problem | None:
    """Why it takes longer only to look at a schema, which is counted no further than that."""
    text = to_json(schema)
    left_ns = most_ns - (text.count(b"{") + text.count(b"[")) * CONTAINER_NS
    if left_ns < 0:
        return _SIMPLER
    count_max = left_ns // SCHEMA_NS
    found = islice(Document(schema).schemas(), count_max + 1)
    return _SIMPLER if sum(1 for _ in found) > count_max else None


def _bounded(document: Document, most_ns: int | None) -> WorkBound | Problem:
    """The work of a schema that takes no longer to weigh and to compile, or what is wrong."""
    if most_ns is None:
        weights = weigh(document)
        return weights if isinstance(weights, Problem) else WorkBound(document, weights)
    tries = len(AUTOMATON_BYTES_STEPS)
    if rewriting_ns(patterns_of(document)) * tries > most_ns:
        return _SIMPLER
    weights = weigh(document, most_ns // AUTOMATON_BYTE_NS)
    if isinstance(weights, Problem):
        return weights
    bound = WorkBound(document, weights)
    return _SIMPLER if bound.compile_ns > most_ns else bound


def _arrived(document: Document, bound: WorkBound) -> SchemaValidator:
    """Of a schema that another process has compiled: native code holds all threads of this one."""
    is_short = bound.compile_ns <= LOOP_NS
    return SchemaValidator(document, _native(document) if is_short else None, bound)


def _native(document: Document) -> jsonschema_rs.Validator:
    """Raises ValidationError if the schema breaks the rules of its draft."""
    return jsonschema_rs.validator_for(
        without_ids(document),
        offline=True,
        validate_formats=True,
        mask="***",
        pattern_options=automaton_options(AUTOMATON_BYTES_STEPS[-1]),
    )


def _fault(error: jsonschema_rs.ValidationError) -> Problem:
    """Where the schema breaks the rules of its draft; the library's message may quote addresses."""
    (first,) = explain([error], 1, schema=True)  # it broke a metaschema
    return Problem.of(first.path, "schema", f"a valid JSON Schema: here {first.expected}")
