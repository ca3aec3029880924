"""The bound on the work of a check: what takes long in native code is counted before it is done."""

from typing import Any

import pytest
from pydantic import JsonValue

from services.worker.core.guard.cost import WorkBound
from services.worker.core.guard.effort import LOOP_NS
from services.worker.core.guard.patterns import weigh
from services.worker.core.json_schema.document import Document

UNIQUE: dict[str, Any] = {"uniqueItems": True}
WIDE = 5 * 10**19  # all integers near it read as the same machine number
COMMON_NS = LOOP_NS // 10
TREE = {"items": {"$ref": "#"}, "enum": [[i + 0.5] for i in range(60)]}


def bound(schema: Any) -> WorkBound:
    document = Document(schema)
    weights = weigh(document)
    assert isinstance(weights, dict)
    return WorkBound(document, weights)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (UNIQUE, [WIDE + i for i in range(400)]),  # 90 ms
        (UNIQUE, [-WIDE - i for i in range(400)]),
        (UNIQUE, [[{"a": WIDE + i}] for i in range(400)]),
        (UNIQUE, [2**62 + i for i in range(500)]),  # 60 ms
        (UNIQUE, [[2**60 + i % 32, 2**60 + i // 32] for i in range(1_000)]),  # 180 ms
        (UNIQUE, [[float(WIDE), WIDE + i] for i in range(400)]),
        (UNIQUE, [10**400 + i * 10**390 for i in range(100)]),  # 60 ms: larger than any float
        ({"properties": {"a": UNIQUE}}, {"a": [WIDE + i for i in range(400)]}),
        ({"items": UNIQUE}, [[i + 0.5 for i in range(15)]] * 200),  # 32 ms: each with each
        ({"items": UNIQUE}, [[i * 1e-300 for i in range(15)]] * 20),  # 80 ms
        ({"items": UNIQUE}, [[10**20 + i * 10**18 for i in range(15)]] * 300),  # 30 ms
        ({"items": {"enum": [*range(60)]}}, [0.25] * 600),  # 60 ms
        ({"items": {"enum": [[i + 0.5] for i in range(60)]}}, [[0.25]] * 300),  # 30 ms
        ({"items": {"allOf": [{"minimum": -0.5, "maximum": 9.5}] * 12}}, [1.5] * 4_000),  # 80 ms
        ({"items": {"allOf": [{"minimum": 0.5}] * 12}}, [2**59] * 1_000),  # 35 ms
        ({"items": {"maximum": 9.5}}, [1e-300] * 3_000),  # 50 ms
        ({"items": {"multipleOf": 5e-324}}, [1.7e308] * 1_100),  # 70 ms
        ({"items": {"multipleOf": 1e-300}}, [7] * 1_100),  # 34 ms
        ({"items": {"multipleOf": 0.1}}, [1e307] * 2_000),  # 38 ms
        ({"format": "regex"}, "".join(f"(?<n{i}>a)" for i in range(4_000))),  # 31 ms
        ({"format": "regex"}, "".join(f"(?<n{i}>a)\\k<n{i}>" for i in range(3_000))),  # 35 ms
        (TREE, [[0.25]] * 300),
        (TREE | {"enum": [i + 0.5 for i in range(60)]}, [7] * 300),  # the same number each time
    ],
)
def test_what_would_hold_an_event_loop_is_counted(schema: Any, value: JsonValue) -> None:
    """Each took longer than an event loop waits, as measured beside it, and was counted as less."""
    assert bound(schema).cost_of_check(value, LOOP_NS) > LOOP_NS


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (UNIQUE, [1_700_000_000_000_000_000 + i * 2**22 for i in range(150)]),  # ids with a time
        (UNIQUE, [f"tag {i}" for i in range(1_000)]),
        ({"items": UNIQUE}, [["one", "two", "three", "four"]] * 50),
        (
            {
                "items": {
                    "properties": {"price": {"multipleOf": 0.01, "minimum": 0}, "tags": UNIQUE}
                }
            },
            [{"price": 12.34, "tags": ["one", "two"]}] * 50,
        ),
        (
            {"additionalProperties": {"type": "number", "minimum": 0.0, "maximum": 1.0}},
            {f"class {i}": 0.875 for i in range(100)},
        ),
        ({"items": {"enum": [1, 2, 5, 10]}}, [5] * 500),
        ({"format": "regex"}, r"^(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)$"),
    ],
)
def test_a_common_answer_is_a_small_part_of_what_an_event_loop_may_do(
    schema: Any, value: JsonValue
) -> None:
    assert bound(schema).cost_of_check(value, LOOP_NS) < COMMON_NS


@pytest.mark.parametrize("keyword", ["minimum", "exclusiveMinimum", "const", "multipleOf"])
def test_findings_hold_the_limit_that_they_are_about(keyword: str) -> None:
    """A long one takes 190 microseconds each time."""
    schema = {"items": {keyword: int("7" * 4_290)}}

    assert bound(schema).cost_of_findings([1] * 500, LOOP_NS) > LOOP_NS
    assert bound({"items": {keyword: 7}}).cost_of_findings([1] * 100, LOOP_NS) < COMMON_NS
