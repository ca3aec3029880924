"""Two validators, one verdict: the authority's and that of `jsonschema`, over the corpora."""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import JsonValue

from services.worker.core.schema.validator import SchemaValidator, compile_schema
from tests.corpora import corpora
from tests.oracle import is_valid
from tests.schema_suite import groups

LOAD = corpora()
# What `jsonschema` leaves to others, and where the authority does as the suite says
# (docs/conformance.md): formats need further packages there, patterns are Python's and not
# ECMA-262's, and `dependencies` means nothing to it in the drafts that have moved it elsewhere.
ECMA_ALONE = re.compile(r"\\[pPcdDwWsSbB]")


def differs(schema: Any, value: JsonValue, known: SchemaValidator) -> bool:
    """Whether the verdicts differ for another reason than those."""
    problems = known.problems(value)
    text = repr(schema)
    if "'dependencies'" in text and known.document.draft >= 2019:
        return False
    try:
        verdict = is_valid(schema, value)
    except re.error:
        return ECMA_ALONE.search(text) is None
    if verdict == (not problems):
        return False
    if "'format'" in text and ({p.code for p in problems} <= {"format"}):
        return False
    return ECMA_ALONE.search(text) is None


def of_the_suite() -> Iterator[tuple[str, Any, JsonValue]]:
    for file in LOAD.suite():
        for schema, tests in groups(file):
            for test in tests:
                yield f"{file.draft}/{file.path}: {test['description']}", schema, test["data"]


def of_the_sample() -> Iterator[tuple[str, Any, JsonValue]]:
    for case in LOAD.schemas():
        made = case.get("generated", {})
        for kind in ("valid", "invalid"):
            for value in [*case[kind], *made.get(kind, [])]:
                yield case["id"], case["schema"], value


def disputed(cases: Iterator[tuple[str, Any, JsonValue]]) -> tuple[int, list[str]]:
    """How many verdicts were compared, and where they differ."""
    compared, found, last = 0, [], None
    known: object = None
    for name, schema, value in cases:
        if schema is not last:
            last, known = schema, compile_schema(schema)
        if isinstance(known, SchemaValidator):
            compared += 1
            if differs(schema, value, known):
                found.append(name)
    return compared, found


def test_on_the_suite_the_verdicts_are_the_same() -> None:
    compared, found = disputed(of_the_suite())

    assert found == []
    assert compared > 1_000


def test_on_real_world_schemas_the_verdicts_are_the_same() -> None:
    compared, found = disputed(of_the_sample())

    assert found == []
    assert compared > 1_000
