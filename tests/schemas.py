"""Schemas made by chance, each with a way to make answers that satisfy it."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from pydantic import JsonValue

NAMES = st.sampled_from(["a", "b", "c", "kind", "null_or_extra_json", "$ref", "x/y~z", "é"])
OTHERS = st.sampled_from(["r", "null_or_extra_json", "json_text", "answer"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXTS
ANYTHING: SearchStrategy[JsonValue] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)


@dataclass(frozen=True)
class Made:
    schema: Any
    answers: SearchStrategy[JsonValue]


LEAVES = st.sampled_from(
    [
        Made({"type": "string"}, TEXTS),
        Made({"type": "string", "minLength": 2}, st.just("two") | st.just("{}")),
        Made(
            {"type": "string", "pattern": "^[a-c]{1,3}$"},
            st.from_regex("[a-c]{1,3}", fullmatch=True),
        ),
        Made({"type": "string", "pattern": "b"}, st.sampled_from(["b", "abc", "b\n"])),
        Made({"type": "string", "format": "date"}, st.dates().map(str)),
        Made({"type": ["string", "null"]}, st.none() | TEXTS),
        Made({"type": "integer"}, st.integers(-(10**20), 10**20)),
        Made({"type": "integer", "exclusiveMinimum": 0.5, "maximum": 9}, st.integers(1, 9)),
        Made({"type": "number", "minimum": -1}, st.floats(-1, 1e9) | st.integers(-1, 5)),
        Made({"type": "boolean"}, st.booleans()),
        Made({"type": "null"}, st.none()),
        Made({"const": None}, st.none()),
        Made({"const": "a"}, st.just("a")),
        Made({"enum": ["a", 1, None, 2.5]}, st.sampled_from(["a", 1, None, 2.5])),
        Made({"enum": [[1], {"a": None}, "a"]}, st.sampled_from([[1], {"a": None}, "a"])),
        Made({}, ANYTHING),
        Made(True, ANYTHING),
        Made({"type": "array"}, st.lists(ANYTHING, max_size=2)),
        Made({"type": "object"}, st.dictionaries(NAMES, ANYTHING, max_size=2)),
        Made({"minLength": 3}, st.just("three") | st.integers(0, 1) | st.just([])),
    ]
)


@st.composite
def arrays(draw: DrawFn, inner: SearchStrategy[Made]) -> Made:
    """Lists of one shape, or with a place for each item."""
    if draw(st.booleans()):
        made = draw(inner)
        schema = {"type": "array", "items": made.schema, "minItems": 1, "maxItems": 3}
        return Made(schema, st.lists(made.answers, min_size=1, max_size=3))
    places = [draw(inner), draw(inner)]
    schema = {"type": "array", "prefixItems": [p.schema for p in places], "maxItems": 2}
    return Made(schema, st.tuples(*(p.answers for p in places)).map(list))


@st.composite
def objects(draw: DrawFn, inner: SearchStrategy[Made]) -> Made:
    """Objects with optional members, closed, open, or with others of one shape."""
    members = draw(st.dictionaries(NAMES, inner, max_size=3))
    required = [name for name in members if draw(st.booleans())]
    others = draw(st.sampled_from([False, True, None, "typed"]))
    schema: dict[str, Any] = {"properties": {n: m.schema for n, m in members.items()}}
    schema |= {"required": required} if required else {}
    schema |= {"type": "object"} if draw(st.integers(0, 4)) else {}
    schema |= {"maxProperties": draw(st.integers(0, 2))} if not draw(st.integers(0, 4)) else {}
    rest: SearchStrategy[dict[str, JsonValue]] = st.just({})
    if others is True or others is None:
        rest = st.dictionaries(OTHERS, ANYTHING, max_size=2)
    elif others == "typed":
        made = draw(inner)
        others, rest = made.schema, st.dictionaries(st.just("r"), made.answers)
    schema |= {} if others is None else {"additionalProperties": others}
    own = st.fixed_dictionaries(
        {name: members[name].answers for name in required},
        optional={name: made.answers for name, made in members.items() if name not in required},
    )
    apart = rest.map(lambda found: {n: v for n, v in found.items() if n not in members})
    answers = st.tuples(own, apart).map(lambda pair: pair[1] | pair[0])
    return Made(schema, answers if "type" in schema else answers | SCALARS)


@st.composite
def unions(draw: DrawFn, inner: SearchStrategy[Made]) -> Made:
    """One of several; the authority says which draws of `oneOf` really satisfy just one."""
    branches = draw(st.lists(inner, min_size=1, max_size=3))
    keyword = draw(st.sampled_from(["anyOf", "oneOf"]))
    schema = {keyword: [branch.schema for branch in branches]}
    return Made(schema, st.one_of([branch.answers for branch in branches]))


@st.composite
def conjunctions(draw: DrawFn, inner: SearchStrategy[Made]) -> Made:
    """A schema and a part of what it says again, here or behind a reference."""
    made = draw(inner)
    again = draw(st.sampled_from([True, made.schema, {"description": "d"}, {"not": {"const": 77}}]))
    return Made({"allOf": [made.schema, again]}, made.answers)


SCHEMAS: SearchStrategy[Made] = st.recursive(
    LEAVES,
    lambda inner: (
        arrays(inner) | objects(inner) | objects(inner) | unions(inner) | conjunctions(inner)
    ),
    max_leaves=6,
)


@st.composite
def recursive(draw: DrawFn) -> Made:
    """A tree: what a node holds, and nodes inside it, by a definition or by the root."""
    held = draw(SCHEMAS)
    by_root = draw(st.booleans())
    ref = {"$ref": "#" if by_root else "#/$defs/node"}
    node: Any = {
        "type": "object",
        "properties": {
            "held": held.schema,
            "left": ref,
            "right": {"anyOf": [ref, {"type": "null"}]},
        },
        "required": ["held"],
        "additionalProperties": False,
    }
    schema = node if by_root else {"items": ref, "type": "array", "$defs": {"node": node}}
    leaf = st.fixed_dictionaries({"held": held.answers})
    nodes: SearchStrategy[Any] = st.recursive(
        leaf,
        lambda inner: st.fixed_dictionaries(
            {"held": held.answers}, optional={"left": inner, "right": inner | st.none()}
        ),
        max_leaves=3,
    )
    return Made(schema, nodes if by_root else st.lists(nodes, max_size=2))


TYPED = st.sampled_from(
    [
        Made({"type": "integer"}, st.integers(-(10**20), 10**20)),
        Made({"type": ["number", "null"]}, st.none() | st.floats(-1, 1e9)),
        Made({"const": 5}, st.just(5)),
        Made({"enum": [1, "5"]}, st.sampled_from([1, "5"])),
        Made({"enum": ["null", None, 0.5, True]}, st.sampled_from(["null", None, 0.5, True])),
        Made({"enum": ["5", 5, {"x": 1}, [5]]}, st.sampled_from(["5", 5, {"x": 1}, [5]])),
        Made({"enum": [5, None, ["5"]]}, st.sampled_from([5, None, ["5"]])),
        Made({"type": "boolean"}, st.booleans()),
        Made({"type": "null"}, st.none()),
        Made({"type": "string", "maxLength": 3}, st.sampled_from(["", "5", "{}", "[]"])),
        Made({"type": "array", "items": {"type": "integer"}}, st.lists(st.integers(), max_size=2)),
        Made({"required": ["json_text"], "type": "object"}, st.just({"json_text": "[1]"})),
        Made(
            {"properties": {"json_text": {"type": "string"}}, "additionalProperties": False},
            st.sampled_from([{}, {"json_text": "5"}, "5"]),
        ),
    ]
)


def _closed(**members: Any) -> dict[str, Any]:
    closed = {"type": "object", "additionalProperties": False}
    return closed | {"properties": members, "required": list(members)}


_DOUBTFUL = [_closed(x={"type": "object"}), _closed(x={"type": "string"})]  # two readings of "{}"
_EITHER: SearchStrategy[JsonValue] = st.sampled_from(
    [{"x": {}}, {"x": {"a": "5"}}, {"x": "5"}, {"x": "{}"}]
)
FREE = st.sampled_from(
    [
        Made({"anyOf": _DOUBTFUL}, _EITHER),
        Made({"anyOf": [*_DOUBTFUL, {"type": ["string", "null"]}]}, _EITHER | st.none() | TEXTS),
        Made({"minimum": 3}, ANYTHING),
        Made({"anyOf": [{}, {"minimum": 3}]}, ANYTHING),
        Made({}, ANYTHING),
        Made(True, ANYTHING),
        Made({"description": "Whatever it is."}, ANYTHING),
        Made({"type": ["object", "string"]}, st.sampled_from(["{}", "", {}, {"a": "5"}])),
        Made({"type": ["array", "boolean"]}, st.sampled_from([[], ["5", 5, 5.0], True])),
        Made({"type": "object"}, st.dictionaries(NAMES, ANYTHING, max_size=2)),
        Made({"not": {"type": "integer"}}, ANYTHING),
    ]
)
JSON_TEXTS = [
    "5",
    "5.0",
    "null",
    "true",
    "{}",
    "[]",
    '"x"',
    "",
    "x",
    '{"json_text": "5"}',
    "-0",
    "1e400",
]
CONFUSABLE: SearchStrategy[JsonValue] = st.sampled_from(
    [*JSON_TEXTS, 5, 5.0, 1, 1.0, True, None, -0.0, [], {}, ["5"], {"a": "5"}, {"json_text": "5"}]
)


@st.composite
def free_beside_typed(draw: DrawFn) -> Made:
    """A value of free form where a typed one is allowed too, somewhere in a schema."""
    parts = draw(st.permutations([draw(TYPED), draw(FREE)]))
    schemas, answers = [part.schema for part in parts], [part.answers for part in parts]
    value = st.one_of(*answers, CONFUSABLE)
    one_by_one: Any = {"type": "array", "prefixItems": schemas}
    either = {"anyOf": [schemas[0], {"$ref": "#/$defs/v"}], "$defs": {"v": schemas[1]}}
    both: Any = {draw(st.sampled_from(["anyOf", "oneOf"])): schemas}
    conditional: Any = {
        "type": "object",
        "if": {"properties": {"kind": {"const": "k"}}, "required": ["kind"]},
        "then": {"properties": {"a": schemas[0]}},
        "else": {"properties": {"a": schemas[1]}},
        "properties": {"kind": {"type": "string"}, "a": both},
    }
    of_two = [
        Made(either, value),
        Made(one_by_one, st.tuples(*answers).map(list) | st.lists(value, max_size=3)),
        Made(conditional, st.dictionaries(NAMES, value, max_size=2)),
    ]
    return draw(st.sampled_from([*_places(both, value), *of_two]))


@st.composite
def free_alone(draw: DrawFn) -> Made:
    """A value of free form, or one of several of all kinds, somewhere in a schema."""
    made = draw(FREE | TYPED)
    return draw(st.sampled_from(_places(made.schema, made.answers | CONFUSABLE)))


def _places(schema: Any, value: SearchStrategy[JsonValue]) -> list[Made]:
    """Schemas with another one in each kind of place."""
    named = st.dictionaries(NAMES, value, max_size=2)
    return [
        Made(schema, value),
        Made({"allOf": [schema, {"description": "d"}]}, value),
        Made({"anyOf": [schema, {"type": "null"}]}, value | st.none()),
        Made({"$ref": "#/$defs/v", "$defs": {"v": schema}}, value),
        Made({"type": "array", "items": schema}, st.lists(value, max_size=3)),
        Made({"prefixItems": [schema], "type": "array"}, st.lists(value, max_size=3)),
        Made({"type": "object", "properties": {"a": schema}, "required": ["a"]}, named),
        Made({"type": "object", "properties": {"a": schema}, "additionalProperties": False}, named),
        Made({"type": "object", "additionalProperties": schema}, named),
        Made({"type": "object", "patternProperties": {"^[a-c]$": schema}}, named),
    ]
