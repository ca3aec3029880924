"""Real-world schemas: each compiles or is refused for a documented limit, and keeps its meaning."""

import json
from functools import cache
from types import ModuleType
from typing import Any

import jsonschema_rs
import pytest
from pydantic import JsonValue

from answerbus.dead_letter import HostileSchema, UnsupportedSchema
from answerbus.failure import Invalid
from services.worker.core.guard.hostile import Refusal
from services.worker.core.schema.resolved import Unusable
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects import anthropic, gemini, llama_cpp, ollama, openai
from services.worker.dialects.compiler.compile import Compiled, compile_shapes
from services.worker.dialects.compiler.shapes.rules import Rules
from tests.corpora import corpora
from tests.cpu_time import cpu_time
from tests.encoding import (
    CannotBeWrittenError,
    descriptions,
    encode,
    is_read_back,
    texts_in,
)
from tests.strict_subset import faults

SCHEMAS = list(corpora().schemas())  # all of them: the whole takes some ten seconds
REFUSALS = {"size", "depth", "expansion", "pattern", "draft", "id", "reference"}
SECONDS_MAX = 1.0
ALIKE = [anthropic, ollama]  # to one of the others: in the long tests
DIALECTS = [
    *(openai, gemini, llama_cpp),
    *(pytest.param(dialect, marks=pytest.mark.long) for dialect in ALIKE),
]


def name_of(dialect: object) -> str:
    return str(getattr(dialect, "DIALECT", "authority"))


EACH = pytest.mark.parametrize("dialect", DIALECTS, ids=name_of)


@cache
def authority(number: int) -> SchemaValidator | Refusal:
    return compile_schema(SCHEMAS[number]["schema"])


@cache
def compiled(number: int, rules: Rules) -> Compiled | Unusable | None:
    """The wire schema of a schema that the guard lets through, None for the others."""
    if not isinstance(authority(number), SchemaValidator):
        return None
    return compile_shapes(SCHEMAS[number]["schema"], rules)


def valid(case: Any) -> list[JsonValue]:
    return [*case["valid"], *case.get("generated", {}).get("valid", [])]


def invalid(case: Any) -> list[JsonValue]:
    return [*case["invalid"], *case.get("generated", {}).get("invalid", [])]


def places(instances: Any) -> list[tuple[int, str, JsonValue]]:
    """Each instance with its schema's number and name."""
    return [
        (number, case["id"], instance)
        for number, case in enumerate(SCHEMAS)
        for instance in instances(case)
    ]


def test_each_schema_compiles_or_is_refused_for_a_documented_limit() -> None:
    refused = {
        case["id"]: cause.problems[0].code
        for number, case in enumerate(SCHEMAS)
        if isinstance(cause := authority(number), HostileSchema | UnsupportedSchema)
    }

    assert set(refused.values()) <= REFUSALS
    assert len(refused) < 0.05 * len(SCHEMAS)


def test_the_authority_agrees_with_what_others_say_of_the_instances() -> None:
    wrong = [
        (name, instance)
        for instances, expected in ((valid, True), (invalid, False))
        for number, name, instance in places(instances)
        if isinstance(known := authority(number), SchemaValidator)
        if (known.problems(instance) == ()) != expected
    ]
    # Kept under formats that are not asserted; we assert them.
    disputed = [name for name, instance in wrong if not _only_format(name, instance)]

    assert disputed == []


def _only_format(name: str, instance: JsonValue) -> bool:
    number = next(n for n, case in enumerate(SCHEMAS) if case["id"] == name)
    found = authority(number)
    assert isinstance(found, SchemaValidator)
    problems = found.problems(instance)
    return bool(problems) and all(problem.code == "format" for problem in problems)


@EACH
def test_the_dialect_carries_nearly_every_schema(dialect: ModuleType) -> None:
    carried = [
        number
        for number in range(len(SCHEMAS))
        if isinstance(wire := compiled(number, dialect.RULES), Compiled)
        if dialect.excess(wire.schema) is None
    ]

    print(f"{dialect.DIALECT}: {len(carried)} of {len(SCHEMAS)}")  # noqa: T201 - for the docs
    assert len(carried) > 0.95 * len(SCHEMAS)


@EACH
def test_every_wire_schema_is_in_the_strict_subset(dialect: ModuleType) -> None:
    found = {
        case["id"]: breaches
        for number, case in enumerate(SCHEMAS)
        if isinstance(wire := compiled(number, dialect.RULES), Compiled)
        if (breaches := faults(wire.schema, dialect.DIALECT))
    }

    assert found == {}


@EACH
def test_no_wire_schema_is_narrower_than_its_authority(dialect: ModuleType) -> None:
    narrow: list[tuple[str, str]] = []
    for number, name, instance in places(valid):
        wire, known = compiled(number, dialect.RULES), authority(number)
        if not isinstance(wire, Compiled) or not isinstance(known, SchemaValidator):
            continue
        if known.problems(instance):
            continue
        try:
            written = encode(wire, instance)
        except CannotBeWrittenError:
            narrow.append((name, "has no place for a valid instance"))
            continue
        if not jsonschema_rs.is_valid(wire.schema, written, validate_formats=True, offline=True):
            narrow.append((name, "refuses a valid instance"))
        read = wire.decode(written)
        if isinstance(read, Invalid) or not is_read_back(read, instance, dialect.RULES):
            narrow.append((name, "reads a valid instance as another"))

    assert narrow == []


@EACH
def test_each_place_that_is_read_as_json_text_is_described_as_such(dialect: ModuleType) -> None:
    untold = [
        (case["id"], text.hint)
        for number, case in enumerate(SCHEMAS)
        if isinstance(wire := compiled(number, dialect.RULES), Compiled)
        for message in ["\n" + "\n\n".join(descriptions(wire.schema)) + "\n"]
        for text in texts_in(wire.shapes)
        if f"\n{text.hint}\n" not in message  # the place may be described as well
    ]

    assert untold == []


@pytest.mark.parametrize("dialect", [None, *DIALECTS], ids=name_of)
def test_no_schema_takes_long_and_none_is_changed(dialect: ModuleType | None) -> None:
    slow: list[str] = []
    for number, case in enumerate(SCHEMAS):
        before = json.dumps(case["schema"])
        with cpu_time() as cpu:
            if dialect is None:
                compile_schema(case["schema"])
            elif isinstance(authority(number), SchemaValidator):
                compile_shapes(case["schema"], dialect.RULES)
        if not cpu.is_below(SECONDS_MAX):
            slow.append(case["id"])
        assert json.dumps(case["schema"]) == before

    assert slow == []
