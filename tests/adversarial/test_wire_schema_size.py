"""No schema that a request may bring becomes a large wire schema, or takes long to compile."""

import random
from typing import Any

import pytest

from answerbus.dead_letter import UnsupportedSchema
from services.worker.core.schema.resolved import Unusable
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects.compiler.shapes.describe import DESCRIPTIONS_BYTES_MAX
from services.worker.dialects.compiler.wire.emit import WIRE_SCHEMA_BYTES_MAX
from services.worker.dialects.dispatch import DialectName
from tests.cpu_time import cpu_time
from tests.unit.worker.dialects.compiling import compiled

SECONDS_MAX = 4.0  # of CPU on a busy core; without a bound the slowest of these take 45
DIALECTS: list[DialectName] = ["openai", "gemini", "llama_cpp"]
ALIKE: list[DialectName] = ["anthropic", "ollama"]  # to one of those: in the long tests
EACH = pytest.mark.parametrize(
    "dialect", [*DIALECTS, *(pytest.param(dialect, marks=pytest.mark.long) for dialect in ALIKE)]
)
FRAMING_BYTES_MAX = 64 * 1024  # the marks around at most 5,000 descriptions
LINKS = 700


def nested(levels: int, branches: int, leaf: Any) -> dict[str, Any]:
    """Unions in one another around one member: it is in `branches ** levels` places."""
    whole = leaf
    for level in range(levels):
        tag = f"k{level}"
        whole = {
            "type": "object",
            "required": [tag, "x"],
            "properties": {"x": whole},
            "anyOf": [{"properties": {tag: {"const": i}}} for i in range(branches)],
        }
    return dict(whole)


def chained(link: Any) -> dict[str, Any]:
    """Definitions that each lead to the next."""
    return {f"c{i}": link(i) for i in range(LINKS)} | {f"c{LINKS}": {"type": "integer"}}


REFS = chained(lambda i: {"$ref": f"#/$defs/c{i + 1}", "description": f"t{i}"})
SILENT = chained(lambda i: {"allOf": [{"$ref": f"#/$defs/c{i + 1}"}]})
ALL_OF = chained(lambda i: {"allOf": [{"$ref": f"#/$defs/c{i + 1}"}], "description": f"t{i}"})
FIRST = {"$ref": "#/$defs/c0"}
LONG_NAME: Any = {
    "type": "object",
    "properties": {
        "L" * 30_000: {
            "type": "object",
            "properties": {
                f"p{i}": {"$ref": "#/$defs/a", "description": f"d{i}"} for i in range(400)
            },
        }
    },
    "$defs": {"a": {"type": "object", "properties": {"z": {"type": "integer"}}}},
}
HOSTILE: dict[str, Any] = {
    "one long description": nested(2, 25, {"type": "string", "description": "L" * 55_000}),
    "one long description, more": nested(2, 45, {"type": "string", "description": "L" * 40_000}),
    "one long name": nested(
        2, 40, {"type": "object", "properties": {"E" * 40_000: {}}, "additionalProperties": False}
    ),
    "one long value": nested(2, 40, {"const": "E" * 40_000}),
    "long values": nested(2, 40, {"enum": ["E" * 300 + str(i) for i in range(90)]}),
    "many values": nested(2, 40, {"enum": [*range(4_000)]}),
    "a long pattern": nested(2, 40, {"type": "string", "pattern": "^" + "E" * 1_500 + "$"}),
    "a chain of references": nested(2, 45, FIRST) | {"$defs": REFS},
    "a chain of allOf": nested(2, 45, {"allOf": [FIRST], "maximum": 3}) | {"$defs": ALL_OF},
    "a silent chain": nested(2, 45, {"allOf": [FIRST], "maximum": 3}) | {"$defs": SILENT},
    "many parts": nested(
        2,
        45,
        {"type": "integer", "allOf": [{"description": f"t{i}", "maximum": i} for i in range(700)]},
    ),
    "a long name with much below": LONG_NAME,
}


def made_at_random(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    leaves: list[Any] = [
        {"type": "string", "description": "d" * chance.randint(1, 50_000)},
        {"enum": [f"{i}" * chance.randint(1, 20) for i in range(chance.randint(1, 400))]},
        {"type": "object", "properties": {"n" * chance.randint(1, 30_000): {"type": "null"}}},
        {"allOf": [{"minLength": i, "description": f"{i}"} for i in range(chance.randint(1, 400))]},
        {"type": "array", "items": {"description": "i" * chance.randint(1, 30_000)}},
    ]
    return nested(chance.randint(1, 4), chance.randint(2, 60), chance.choice(leaves))


def is_bounded(dialect: DialectName, schema: Any) -> bool:
    """Whether it is compiled within all bounds, or refused as other complex schemas are."""
    with cpu_time() as cpu:
        made = compiled(dialect, schema)
    if isinstance(made, Unusable):
        return cpu.is_below(SECONDS_MAX) and isinstance(made.cause, UnsupportedSchema)
    is_small = len(made.text.encode()) <= WIRE_SCHEMA_BYTES_MAX
    reported = len(made.instructions.encode())
    return (
        is_small
        and reported <= DESCRIPTIONS_BYTES_MAX + FRAMING_BYTES_MAX
        and cpu.is_below(SECONDS_MAX)
    )


@EACH
@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_what_merging_multiplies_is_small_or_refused(dialect: DialectName, schema: Any) -> None:
    assert isinstance(compile_schema(schema), SchemaValidator)

    assert is_bounded(dialect, schema)


@EACH
@pytest.mark.parametrize("seed", range(5))
def test_so_is_what_is_made_at_random(dialect: DialectName, seed: int) -> None:
    schema = made_at_random(seed)
    if isinstance(compile_schema(schema), SchemaValidator):
        assert is_bounded(dialect, schema)


@EACH
def test_a_description_too_large_to_repeat_stands_in_the_prompt(dialect: DialectName) -> None:
    made = compiled(dialect, HOSTILE["one long description"])

    assert not isinstance(made, Unusable)
    assert "L" * 55_000 not in made.text
    assert made.instructions.count("L" * 55_000) == 1
