"""The cost of a schema's regular expressions: memory to compile, time to match."""

import re
from collections.abc import Iterable, Iterator

import jsonschema_rs

from answerbus.failure import Problem
from services.worker.core.json_schema.document import Document

# An automaton that fits into the first of these sizes weighs that much. Time per matched byte
# grows with the size, at worst about 0.1 ns per byte of automaton.
AUTOMATON_BYTES_STEPS = (2 * 1024, 16 * 1024, 128 * 1024, 1024 * 1024)
AUTOMATA_BYTES_MAX = 8 * 1024 * 1024  # of all patterns of a schema together
# A pattern is written and read once more for each class of characters in it: `\s` the longest.
REWRITTEN_CHAR_NS = 250
REWRITTEN_CLASS_NS = 5_000
_CLASS = re.compile(r"\\[dDsSwW]")


def automaton_options(size: int) -> jsonschema_rs.RegexOptions:
    """The engine that is linear in the text, with automata of at most `size` bytes."""
    return jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=size)


def rewriting_ns(patterns: Iterable[str]) -> int:
    """The time that the engine takes to read these in its own way, before it compiles them."""
    return sum(_rewriting_ns(pattern) for pattern in patterns)


def _rewriting_ns(pattern: str) -> int:
    classes = len(_CLASS.findall(pattern))
    return classes * (len(pattern) * REWRITTEN_CHAR_NS + classes * REWRITTEN_CLASS_NS)


def patterns_of(document: Document) -> set[str]:
    """The different ones: the same pattern is weighed once."""
    return {pattern for _, pattern in _patterns(document)}


def weigh(document: Document, bytes_max: int = AUTOMATA_BYTES_MAX) -> dict[str, int] | Problem:
    """Each pattern of a schema with the bytes its automaton needs, or what is wrong with one."""
    sizes = [size for size in AUTOMATON_BYTES_STEPS if size <= bytes_max]
    weights: dict[str, int] = {}
    for path, pattern in _patterns(document):
        if pattern in weights:
            continue
        size = _automaton_bytes(pattern, sizes)
        if size is None:
            expected = (
                "a regular expression without look-around and back-references whose automaton "
                f"fits into {sizes[-1]} bytes"
            )
            return Problem.of(path, "pattern", expected)
        weights[pattern] = size
        if sum(weights.values()) > bytes_max:
            return Problem.of(path, "pattern", "fewer or simpler regular expressions")
    return weights


def _patterns(document: Document) -> Iterator[tuple[str, str]]:
    for path, schema in document.schemas():
        pattern, named = schema.get("pattern"), schema.get("patternProperties")
        if isinstance(pattern, str):
            yield path + "/pattern", pattern
        if isinstance(named, dict):
            yield from ((path + "/patternProperties", name) for name in named)


def _automaton_bytes(pattern: str, sizes: Iterable[int]) -> int | None:
    for size in sizes:
        try:
            jsonschema_rs.validator_for(
                {"pattern": pattern}, offline=True, pattern_options=automaton_options(size)
            )
        except ValueError:
            continue
        return size
    return None
