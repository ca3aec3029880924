"""The check of an answer: cheap ones in the event loop, and what would hold it in a process."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.failure import Invalid
from answerbus.request import InlineRef
from services.worker.adapters.costly_work.child_process import ChildProcess
from services.worker.core.attempt.check import Checked
from services.worker.core.schema.resolved import Accepted
from services.worker.ports.costly_work import InPlace, WorkLimits
from services.worker.tasks.checking import TOO_COSTLY, checked
from tests.cpu_time import cpu_time
from tests.unit.worker import builders

# Schemas and answers within all published limits, found by hand; each cost an event loop up to
# several seconds of CPU, and some gigabytes.
COSTLY: list[tuple[dict[str, Any], JsonValue]] = [
    (
        {"allOf": [{"required": [f"a{n}"]} for n in range(2000)]},
        {f"m{n}": 0 for n in range(8_000)},
    ),
    ({"items": {"enum": [{"a": n} for n in range(990)]}}, [0] * 14_000),
    ({"items": {"enum": [{"a": n} for n in range(990)]}}, [{"a": 989}] * 5_000),
    # Each level asks all schemas in place twice
    (
        {
            "$ref": "#/$defs/d0",
            "$defs": {
                f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}], "unevaluatedProperties": False}
                for n in range(24)
            }
            | {"d24": {"properties": {"a": {}}}},
        },
        {"a": 1},
    ),
    # A finding in a union holds those of all its alternatives
    (
        {
            "$ref": "#/$defs/node",
            "$defs": {
                "node": {
                    "anyOf": [
                        {
                            "type": "object",
                            "properties": {"kind": {"const": kind}, "c": {"$ref": "#/$defs/node"}},
                            "required": ["kind"],
                        }
                        for kind in "ab"
                    ]
                }
            },
        },
        {"c": {"c": {"c": {"c": {"c": {"c": {"c": {"c": {"c": {"c": {"c": {"c": {}}}}}}}}}}}}},
    ),
]


@pytest.fixture
async def child() -> AsyncIterator[ChildProcess]:
    process = ChildProcess()
    yield process
    await process.close()


class Nowhere(InPlace):
    """Says that it was asked."""

    async def run(self, owner: str, work: Any, *_: Any, **__: Any) -> Any:
        raise LookupError(owner)


async def check(schema: dict[str, Any], value: JsonValue, where: Any) -> Checked:
    ref = InlineRef(name="thing", wrapped=False, json_schema=schema)
    return await checked(json.dumps(value), builders.plan(ref), where, "w-0")


@pytest.mark.wide
@pytest.mark.parametrize(("schema", "value"), COSTLY)
async def test_what_would_hold_the_loop_is_found_out_before_and_ends_in_a_typed_problem(
    schema: dict[str, Any], value: JsonValue, child: ChildProcess
) -> None:
    ref = InlineRef(name="thing", wrapped=False, json_schema=schema)
    plan, content = builders.plan(ref), json.dumps(value)

    with cpu_time() as cpu, pytest.raises(LookupError, match="w-0"):
        await checked(content, plan, Nowhere(), "w-0")
    found = await checked(content, plan, child, "w-0")

    assert cpu.is_below(0.1)
    assert isinstance(found, Invalid | Accepted)


@pytest.mark.wide
async def test_an_answer_that_takes_more_than_the_process_may_take_is_too_costly() -> None:
    child = ChildProcess(WorkLimits(wall_s=0.001))
    schema, value = COSTLY[1]

    assert await check(schema, value, child) == TOO_COSTLY
    await child.close()


async def test_an_answer_of_an_ordinary_size_is_checked_where_it_is() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            f"m{n}": {
                "type": "array",
                "items": {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}},
            }
            for n in range(30)
        },
        "required": [f"m{n}" for n in range(30)],
        "additionalProperties": False,
    }
    value: dict[str, JsonValue] = {f"m{n}": [{"a": "x"}] * 8 for n in range(30)}

    assert await check(schema, value, Nowhere()) == Accepted(value)
    assert isinstance(await check(schema, value | {"m0": [{"a": "z"}]}, Nowhere()), Invalid)
    assert isinstance(await check(schema, {"m1": 1}, Nowhere()), Invalid)
