"""The cost of a schema's regular expressions: memory to compile, time to match."""

from collections.abc import Iterator

import jsonschema_rs

from answerbus.failure import Problem
from services.worker.core.json_schema.document import Document

# An automaton that fits into the first of these sizes weighs that much. Time per matched byte
# grows with the size, at worst about 0.1 ns per byte of automaton.
AUTOMATON_BYTES_STEPS = (2 * 1024, 16 * 1024, 128 * 1024, 1024 * 1024)
AUTOMATA_BYTES_MAX = 8 * 1024 * 1024  # of all patterns of a schema together


def automaton_options(size: int) -> jsonschema_rs.RegexOptions:
    """The engine that is linear in the text, with automata of at most `size` bytes."""
    return jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=size)


def weigh(document: Document) -> dict[str, int] | Problem:
    """Each pattern of a schema with the bytes its automaton needs, or what is wrong with one."""
    weights: dict[str, int] = {}
    for path, pattern in _patterns(document):
        if pattern in weights:
            continue
        size = _automaton_bytes(pattern)
        if size is None:
            expected = (
                "a regular expression without look-around and back-references whose automaton "
                f"fits into {AUTOMATON_BYTES_STEPS[-1]} bytes"
            )
            return Problem.of(path, "pattern", expected)
        weights[pattern] = size
        if sum(weights.values()) > AUTOMATA_BYTES_MAX:
            return Problem.of(path, "pattern", "fewer or simpler regular expressions")
    return weights


def _patterns(document: Document) -> Iterator[tuple[str, str]]:
    for path, schema in document.schemas():
        pattern, named = schema.get("pattern"), schema.get("patternProperties")
        if isinstance(pattern, str):
            yield path + "/pattern", pattern
        if isinstance(named, dict):
            yield from ((path + "/patternProperties", name) for name in named)


def _automaton_bytes(pattern: str) -> int | None:
    for size in AUTOMATON_BYTES_STEPS:
        try:
            jsonschema_rs.validator_for(
                {"pattern": pattern}, offline=True, pattern_options=automaton_options(size)
            )
        except ValueError:
            continue
        return size
    return None
