"""JSON in lines, marked where something is wrong, and what another answer has more and less."""

import json
from functools import partial

import pytest
from pydantic import JsonValue

from answerbus.answers.agent_action import AGENT_ACTION
from services.console.views.marked_json import (
    COMPARED_LINES_MAX,
    LINES_MAX,
    CodeLine,
    difference,
    marked_json,
    schema_around,
)
from services.console.views.schema_place import schema_place
from tests.cost.budget import ANYBODY, MARGIN, peak_bytes, spent

ANSWER: JsonValue = {"a/b": [{"x": 1, "y": []}, "t\u202e"], "c~": {}, "d": None}


def lines(found: list[CodeLine], kind: str) -> list[str]:
    return [line.text.strip() for line in found if line.kind == kind]


@pytest.mark.parametrize("value", [ANSWER, [], {}, "text", None, 7, [[[1], 2], 3], {"": {"": 1}}])
def test_the_lines_are_the_json(value: JsonValue) -> None:
    found = marked_json(value, [])

    assert json.loads("\n".join(line.text for line in found)) == value
    assert "\n".join(line.text for line in found).isascii()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/a~1b/0/x", '"x": 1,'),
        ("/a~1b/1", '"t\\u202e"'),
        ("/c~0", '"c~": {},'),
        ("/d", '"d": null'),
        ("", "{"),
        ("/a~1b/0/missing", "{"),
        ("/nowhere/at/all", "{"),
        ("/a~1b/7", '"a/b": ['),
    ],
)
def test_a_fault_stands_below_the_line_or_the_nearest_around_it(path: str, line: str) -> None:
    found = marked_json(ANSWER, [(path, "wrong")])

    assert lines(found, "marked") == [line]
    assert lines(found, "fault") == ["wrong"]


def test_a_long_answer_is_cut_and_says_so() -> None:
    found = marked_json(list(range(2 * LINES_MAX)), [("/3", "wrong")])

    assert len(found) == LINES_MAX + 2
    assert found[-1] == CodeLine("… 1,002 more lines", "gap")


SCHEMA = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "pair": {"prefixItems": [{"type": "string"}, {"type": "number"}]},
        "map": {"additionalProperties": {"type": "integer"}},
    },
    "$defs": {"Item": {"anyOf": [{"type": "null"}, {"properties": {"x": {"type": "string"}}}]}},
}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", ""),
        ("/items", "/properties/items"),
        ("/items/4", "/properties/items/items"),
        ("/items/4/x", "/$defs/Item/anyOf/1/properties/x"),
        ("/items/4/x/deeper", "/$defs/Item/anyOf/1/properties/x"),
        ("/pair/1", "/properties/pair/prefixItems/1"),
        ("/pair/9", "/properties/pair"),
        ("/map/any", "/properties/map/additionalProperties"),
        ("/unknown", ""),
    ],
)
def test_a_path_leads_to_its_part_of_the_schema(path: str, place: str) -> None:
    assert schema_place(SCHEMA, path) == place


def test_references_in_circles_end() -> None:
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 3}}}

    assert schema_place(circle, "/x/y") == ""
    assert schema_place(True, "/x") == ""
    assert schema_place({"prefixItems": [{}]}, "/" + "9" * 5_000) == ""


def test_no_path_takes_long_to_find_in_a_schema() -> None:
    deep: JsonValue = {"type": "string"}
    place = "#/$defs/deep" + "/properties/x" * 14
    for _ in range(14):
        deep = {"properties": {"x": deep}}
    last: JsonValue = {"properties": {"a": {"$ref": "#/$defs/a"}}}
    refers: JsonValue = {"$ref": place}
    many: JsonValue = {"anyOf": [*[refers] * 196, last]}
    schema: JsonValue = {"$ref": "#/$defs/a", "$defs": {"deep": deep, "a": many}}

    assert schema_place(schema, "/a") == "/$defs/a/anyOf/196/properties/a"
    assert spent(partial(schema_place, schema, "/a" * 190)).is_below(MARGIN * ANYBODY.loop_s)


def test_only_what_is_near_a_rule_is_shown() -> None:
    schema = AGENT_ACTION.schema()
    found = schema_around(schema, [schema_place(schema, "/actions/0/args")])

    assert lines(found, "rule") == ['"args": {']
    assert lines(found, "gap")
    assert len(found) < len(json.dumps(schema, indent=2).splitlines())


COSTLY: list[JsonValue] = [
    [0] * 17_000,
    {"k" * 200_000: [0] * 3_000},
    json.loads('{"a":' * 95 + "[" + "0," * 8_000 + "0]" + "}" * 95),
    ["\\\0\u202e" * 80_000],
    {f"\u202e{n}" * 9: "\u202e" * 40 for n in range(2_000)},
]


@pytest.mark.wide
@pytest.mark.parametrize("value", COSTLY)
def test_no_answer_takes_long_or_much_memory_to_show(value: JsonValue) -> None:
    problems = [(f"/{n}", "wrong") for n in range(20)]
    size = len(json.dumps(value, ensure_ascii=False).encode())

    for work in (partial(marked_json, value, problems), partial(schema_around, value, ["/7"])):
        took = spent(work)
        assert took.is_below(3 * ANYBODY.loop_s), took  # it was 0.14 s
        assert peak_bytes(work) <= ANYBODY.bytes_max(size)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["a"] * 298, ["a", "b"] * 149),
        (["a"] * 298, ["c", "a"] * 149),
        ([n % 7 for n in range(298)], [n % 5 for n in range(298)]),
        (["x" * 80_000], ["y" * 80_000]),
    ],
)
def test_no_answers_take_long_to_compare(before: JsonValue, after: JsonValue) -> None:
    took = spent(partial(difference, before, after))

    assert took.is_below(MARGIN * ANYBODY.loop_s), took


def test_a_difference_is_the_least_there_is() -> None:
    found = difference(["a", "b", "c", "d"], ["b", "c", "x", "d"])

    assert found is not None
    assert lines(found, "less") == ['-   "a",']
    assert lines(found, "more") == ['+   "x",']


def test_a_difference_says_what_came_and_went() -> None:
    found = difference({"a": 1, "b": 2}, {"a": 1, "b": 3})

    assert found is not None
    assert lines(found, "less") == ['-   "b": 2']
    assert lines(found, "more") == ['+   "b": 3']
    assert difference(list(range(COMPARED_LINES_MAX)), []) is None


def test_long_texts_of_invisible_signs_are_compared_within_the_budget() -> None:
    """Each becomes twelve characters."""
    signs = "".join(chr(0xE0000 + number % 100) for number in range(600))
    value: JsonValue = [signs] * 100
    work = partial(difference, value, [signs])
    assert work() is None

    assert spent(work).is_below(ANYBODY.loop_s)
