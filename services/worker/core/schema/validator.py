"""The full check of answers to an inline schema: compiled once, bounded in time and memory."""

import json
from dataclasses import dataclass

import jsonschema_rs
from pydantic import JsonValue

from answerbus.failure import Problem
from answerbus.limits import INLINE_SCHEMA_NODES_MAX, PROBLEMS_MAX
from services.worker.core.guard.cost import findings_bound, matching_bound, values_in
from services.worker.core.guard.expansion import expanded_nodes
from services.worker.core.guard.hostile import Refusal, admit, hostile
from services.worker.core.guard.patterns import AUTOMATON_BYTES_STEPS, automaton_options, weigh
from services.worker.core.json_schema.document import Document
from services.worker.core.json_schema.embed import without_ids
from services.worker.core.json_schema.keywords import AnySchema
from services.worker.core.schema.problems import explain
from services.worker.core.schema.tags import name_tags

# Each bound stands for well under a second on one slow core.
CHECKS_MAX = 2_000_000  # schemas times values; a comparison costs up to 150 ns
CHECKS_COUNTED_MAX = 80_000  # where the product is larger, what applies to what is counted
FINDINGS_MAX = 30_000  # collecting one costs 8 µs, and no validator can be stopped at the twentieth
MATCHING_MAX = 6_000_000_000  # bytes of automata times bytes of text


@dataclass(frozen=True, slots=True)
class SchemaValidator:
    """One compiled schema. Made by `compile_schema` alone."""

    document: Document
    _validator: jsonschema_rs.Validator
    _nodes: int
    _weights: dict[str, int]

    def problems(self, value: JsonValue) -> tuple[Problem, ...]:
        """What is wrong with `value`; empty exactly if it satisfies the schema."""
        if self._too_costly(value):
            expected = "a smaller value: this one is too large to be checked against the schema"
            return (Problem.of("", "too_costly", expected),)
        if self._validator.is_valid(value):
            return ()
        if findings_bound(self.document, value, FINDINGS_MAX) > FINDINGS_MAX:
            expected = "a value that satisfies the schema; it is too large to say where it does not"
            return (Problem.of("", "schema", expected),)
        found = explain(self._validator.iter_errors(value), PROBLEMS_MAX, self.document.root)
        return name_tags(found, self.document, value)

    def _too_costly(self, value: JsonValue) -> bool:
        """Cheap bounds first, as nearly every answer meets them."""
        text = len(json.dumps(value, ensure_ascii=False).encode())
        few_checks = self._nodes * values_in(value) <= CHECKS_MAX
        if few_checks and sum(self._weights.values()) * text <= MATCHING_MAX:
            return False
        work = matching_bound(self.document, value, self._weights, CHECKS_COUNTED_MAX)
        return work is None or work > MATCHING_MAX


def compile_schema(schema: AnySchema) -> SchemaValidator | Refusal:
    """Guards and compiles a schema from outside.

    Nothing is fetched and no file is read; formats are checked; regular expressions run on an
    engine that is linear in the text.
    """
    document = admit(schema)
    if not isinstance(document, Document):
        return document
    weights = weigh(document)
    if isinstance(weights, Problem):
        return hostile(weights)
    try:
        validator = jsonschema_rs.validator_for(
            without_ids(document),
            offline=True,
            validate_formats=True,
            mask="***",
            pattern_options=automaton_options(AUTOMATON_BYTES_STEPS[-1]),
        )
    except jsonschema_rs.ValidationError as error:
        return hostile(_fault(error))
    nodes = expanded_nodes(document, INLINE_SCHEMA_NODES_MAX)
    return SchemaValidator(document, validator, nodes, weights)


def _fault(error: jsonschema_rs.ValidationError) -> Problem:
    """Where the schema breaks the rules of its draft; the library's message may quote addresses."""
    (first,) = explain([error], 1, schema=True)  # it broke a metaschema
    return Problem.of(first.path, "schema", f"a valid JSON Schema: here {first.expected}")
