"""What a model writes means one value, or is told and asked again; no value changes silently."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from pydantic import JsonValue

from answerbus import failure
from answerbus.answers.agent_action import AGENT_ACTION
from answerbus.contract import Closed, Contract
from answerbus.registry import Registry
from answerbus.request import InlineRef
from services.worker.core.attempt.check import Checked, check
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, WireSchema
from services.worker.core.schema.validator import SchemaValidator, compile_schema
from services.worker.dialects import anthropic, gemini, openai, plain
from services.worker.dialects.compiler.compile import Compiled, compile_shapes
from services.worker.dialects.compiler.parsing.separate_texts import CARRIER_NAME
from services.worker.dialects.compiler.shapes.rules import Rules
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.encoding import exactly, texts_in
from tests.oracle import is_valid
from tests.schemas import Made, free_alone, free_beside_typed

pytestmark = pytest.mark.wide

PACKING: list[DialectName] = ["openai", "anthropic", "gemini", "plain"]
AS_IT_IS: list[DialectName] = ["llama_cpp", "ollama", "prompted", "vllm"]
REST = "null_or_extra_json"


def asked(
    dialect: DialectName, schema: Any, *, wrapped: bool = False
) -> tuple[ResolvedSchema, WireSchema]:
    ref = InlineRef(name="mine", wrapped=wrapped, json_schema=schema)
    found = resolve(ref, Registry([]))
    assert isinstance(found, ResolvedSchema)
    wire = compile_for(dialect, found)
    assert isinstance(wire, WireSchema)
    return found, wire


def published(dialect: DialectName, schema: Any, content: str) -> Checked:
    found, wire = asked(dialect, schema)
    return check(content, found, wire)


def members(**shapes: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": shapes,
        "required": list(shapes),
        "additionalProperties": False,
    }


def same_json(checked: Checked, value: JsonValue) -> bool:
    """Accepted, and the same to the letter: 1, 1.0, "1" and true all differ."""
    return isinstance(checked, Accepted) and exactly(checked.answer) == exactly(value)


@pytest.mark.parametrize("dialect", [*PACKING, *AS_IT_IS])
@pytest.mark.parametrize(
    "typed",
    [
        {"type": "integer"},
        {"type": ["number", "null"]},
        {"type": "string", "maxLength": 50},
        {"enum": ["5", 5, None]},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "object", "properties": {"x": {}}, "required": ["x"]},
    ],
)
@pytest.mark.parametrize("free", [{}, True, {"description": "d"}, {"not": {"const": 7}}])
def test_a_text_beside_something_typed_is_that_text(
    dialect: DialectName, typed: Any, free: Any
) -> None:
    for union in ({"anyOf": [typed, free]}, {"anyOf": [free, typed]}):
        found, wire = asked(dialect, members(a=union))
        for text in ("5", "5.0", "null", "true", "{}", "[1]", '"x"', "x", "", "Paris"):
            assert same_json(check(json.dumps({"a": text}), found, wire), {"a": text})


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize("item", ["x", "5", 5, 5.5, False])
def test_items_behind_the_last_place_are_what_they_are(
    dialect: DialectName, item: JsonValue
) -> None:
    schema = members(a={"type": "array", "prefixItems": [{"type": "integer"}]})

    assert same_json(published(dialect, schema, json.dumps({"a": [1, item]})), {"a": [1, item]})


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize("value", [{}, [], {"x": [1.0]}, None, {"json_text": "5"}])
def test_what_is_no_scalar_is_carried_as_json_text(dialect: DialectName, value: JsonValue) -> None:
    schema = members(a={"anyOf": [{"type": "integer"}, {}]})
    written = {"a": {"json_text": json.dumps(value)}}

    assert same_json(published(dialect, schema, json.dumps(written)), {"a": value})


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize("inner", ["5", '"x"', "true", "0.5"])
def test_a_scalar_in_a_carrier_reads_one_way(dialect: DialectName, inner: str) -> None:
    schema = members(a={"anyOf": [{"type": "integer"}, {}]})
    written = {"a": {"json_text": inner}}

    assert same_json(published(dialect, schema, json.dumps(written)), {"a": json.loads(inner)})


@pytest.mark.parametrize("dialect", PACKING)
def test_null_in_a_carrier_beside_null_reads_one_way(dialect: DialectName) -> None:
    schema = members(a={"type": ["string", "object", "null"]})

    assert same_json(published(dialect, schema, '{"a": {"json_text": "null"}}'), {"a": None})


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize("inner", ["x", "", 5, None, {}])
def test_a_carrier_of_anything_else_is_asked_again(dialect: DialectName, inner: JsonValue) -> None:
    schema = members(a={"anyOf": [{"type": "integer"}, {}]})
    checked = published(dialect, schema, json.dumps({"a": {"json_text": inner}}))

    assert isinstance(checked, failure.Invalid)
    assert [(p.path, p.code) for p in checked.problems] == [("/a/json_text", "json_text")]


@pytest.mark.parametrize("dialect", PACKING)
def test_json_text_of_a_type_that_is_not_meant_there_is_asked_again(dialect: DialectName) -> None:
    schema = members(a={"anyOf": [{"type": "integer"}, {"type": "object"}]})

    right = published(dialect, schema, '{"a": "{\\"x\\": 1}"}')
    wrong = published(dialect, schema, '{"a": "5"}')

    assert same_json(right, {"a": {"x": 1}})
    assert isinstance(wrong, failure.Invalid)


def has_a_name_of_ours(value: JsonValue) -> bool:
    """Whether an object in it has a member that carries something where it is written as it is."""
    match value:
        case dict():
            ours = any(name.startswith((CARRIER_NAME, REST)) for name in value)
            return ours or any(map(has_a_name_of_ours, value.values()))
        case list():
            return any(map(has_a_name_of_ours, value))
        case _:
            return False


@pytest.mark.parametrize("dialect", PACKING)
@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(free_beside_typed() | free_alone(), st.data())
def test_a_valid_answer_that_the_wire_schema_takes_as_it_is_means_itself(
    dialect: DialectName, made: Made, data: DataObject
) -> None:
    rules: dict[str, Rules] = {m.DIALECT: m.RULES for m in (openai, anthropic, gemini, plain)}
    answer = data.draw(made.answers)
    authority = compile_schema(made.schema)
    assert isinstance(authority, SchemaValidator)
    assume(not authority.problems(answer))
    compiled = compile_shapes(made.schema, rules[dialect])
    assert isinstance(compiled, Compiled)
    assert [text for text in texts_in(compiled.shapes) if "string" in text.types] == []
    written: JsonValue = {"answer": answer} if compiled.is_boxed else answer
    if not is_valid(compiled.schema, written) or has_a_name_of_ours(answer):
        return  # not what a faithful model writes: the round trip shows that
    read = compiled.decode(written)

    assert not isinstance(read, failure.Invalid)
    assert exactly(read) == exactly(answer)


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize(
    "rest", ['{"b": 2}', '{"b": 1}', '{"a": 1}', '{"b": 2, "b": 2}', '{"x": 1e400}']
)
def test_a_member_that_is_said_twice_is_asked_again(dialect: DialectName, rest: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}
    checked = published(dialect, schema, json.dumps({"a": None, "b": 1, REST: rest}))

    assert isinstance(checked, failure.Invalid)
    assert [problem.code for problem in checked.problems] == ["json_text"]


OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize(
    "nonsense",
    ["none", "No further members.", "n/a", "[]", "5", '"x"', "true", "'a'", " ", [], 5, True],
)
def test_nonsense_in_the_extra_member_says_nothing_and_is_noted(
    dialect: DialectName, nonsense: JsonValue
) -> None:
    checked = published(dialect, OPEN, json.dumps({"a": 1, REST: nonsense}))

    assert same_json(checked, {"a": 1})
    assert isinstance(checked, Accepted)
    assert checked.notes == (f"what the model wrote into `/{REST}` was no member, and was dropped",)


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize("nothing", [None, "", "null", "{}", "  null "])
def test_an_empty_extra_member_is_no_news(dialect: DialectName, nothing: JsonValue) -> None:
    checked = published(dialect, OPEN, json.dumps({"a": 1, REST: nothing}))

    assert checked == Accepted({"a": 1})


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize("broken", ["{'b': 1}", '{"b": 1', ' {"b": NaN}', '{"a": 2}', {"b": 1}])
def test_members_that_cannot_be_read_are_asked_for_again(
    dialect: DialectName, broken: JsonValue
) -> None:
    """They were meant to be published."""
    checked = published(dialect, OPEN, json.dumps({"a": 1, REST: broken}))

    assert isinstance(checked, failure.Invalid)
    assert [(p.path, p.code) for p in checked.problems] == [(f"/{REST}", "json_text")]


@pytest.mark.parametrize("dialect", PACKING)
def test_what_was_dropped_deep_inside_is_noted_once_for_each_place(dialect: DialectName) -> None:
    schema = members(items={"type": "array", "items": OPEN})
    items: list[JsonValue] = [{"a": 1, REST: "none"}, {"a": 2, REST: None}, {"a": 3, REST: "-"}]
    checked = published(dialect, schema, json.dumps({"items": items}))

    assert same_json(checked, {"items": [{"a": 1}, {"a": 2}, {"a": 3}]})
    assert isinstance(checked, Accepted)
    assert [note.split("`")[1] for note in checked.notes] == [
        f"/items/0/{REST}",
        f"/items/2/{REST}",
    ]


@pytest.mark.parametrize("dialect", PACKING)
def test_nothing_beside_the_box_of_a_root_is_lost(dialect: DialectName) -> None:
    checked = published(dialect, {"type": "integer"}, '{"answer": 1, "unit": "km"}')

    assert isinstance(checked, failure.Invalid)


EXACT: list[str] = [
    "1",
    "1.0",
    '"1"',
    "true",
    "null",
    '""',
    "[]",
    "{}",
    "-0.0",
    "0.1",
    "1e22",
    "5e-324",
    str(2**63),
    str(-(10**60)),
    '"\\u0000"',
    '"\\ud83d\\ude00"',
    '"\\u2028"',
    '{"": null}',
    '{"null_or_extra_json": null, "json_text": "5", "answer": 1, "$ref": "#"}',
]


def carrier(text: str) -> str:
    return json.dumps({CARRIER_NAME: text})


BARE: list[Any] = [
    {},
    True,
    {"description": "d"},
    {"minimum": 3},
    {"not": {"type": "null"}},
    {"anyOf": [{}, {"minimum": 3}]},
    {"oneOf": [{"minLength": 0, "type": "string"}, {"not": {"type": "string"}}]},
    {"$ref": "#/$defs/v", "$defs": {"v": {}}},
]


@pytest.mark.parametrize("dialect", [*PACKING, *AS_IT_IS])
@pytest.mark.parametrize("free", BARE, ids=json.dumps)
def test_a_scalar_in_a_free_form_place_is_what_it_is(dialect: DialectName, free: Any) -> None:
    whole = members(a={"$ref": "#/$defs/v"}) | free if "$defs" in str(free) else members(a=free)
    whole.pop("$ref", None)
    found, wire = asked(dialect, whole)
    texts = ("5", "5.0", "null", "true", "{}", '"x"', "x", "", "[1]", '{"x": 1}')

    for value in (*texts, 5, 5.5, False):
        assert same_json(check(json.dumps({"a": value}), found, wire), {"a": value})


@pytest.mark.parametrize("dialect", [*PACKING, *AS_IT_IS])
@pytest.mark.parametrize("wrapped", [False, True])
def test_free_form_values_are_published_to_the_letter(
    dialect: DialectName, *, wrapped: bool
) -> None:
    found, wire = asked(dialect, members(a={}), wrapped=wrapped)
    for text in EXACT:
        value = json.loads(text)
        is_carried = dialect in PACKING and (value is None or isinstance(value, dict | list))
        packed = f'{{"a": {carrier(text) if is_carried else text}}}'
        whole: JsonValue = {"a": value}
        if wrapped:
            packed = f'{{"output": {packed}, "success": true, "notes": []}}'
            whole = {"output": whole, "success": True, "notes": [], "failure_reason": None}

        assert same_json(check(packed, found, wire), whole)


@pytest.mark.parametrize("dialect", [*PACKING, *AS_IT_IS])
@pytest.mark.parametrize(
    "text",
    ["1e400", "-1e400", "1e-400", "NaN", "Infinity", '"\\ud800"', '{"x":1,"x":1}', "01", "1 2"],
)
def test_what_no_reader_would_read_alike_is_refused(dialect: DialectName, text: str) -> None:
    written = [text, carrier(text)] if dialect in PACKING else [text]
    for form in written:
        checked = published(dialect, members(a={}), f'{{"a": {form}}}')

        assert isinstance(checked, failure.Invalid | failure.Malformed)


@pytest.mark.parametrize("dialect", ["gemini", *AS_IT_IS])
@pytest.mark.parametrize("text", ["{}", '{"a": null}', '{"a": "x"}'])
def test_null_and_left_out_are_distinguished(dialect: DialectName, text: str) -> None:
    schema = members(a={"type": ["string", "null"]}) | {"required": []}
    _, wire = asked(dialect, schema)

    assert same_json(published(dialect, schema, text), json.loads(text))
    assert wire.schema is None or is_valid(wire.schema, json.loads(text))


class Anything(Closed):
    """Takes `action` both as it is and in a loose form, which is another one."""

    action: JsonValue


def _looser(value: JsonValue) -> JsonValue:
    return {"action": value}


def test_a_loose_form_never_changes_what_is_valid_as_it_is_written() -> None:
    contract = Contract(
        name="anything",
        version=1,
        answer=Anything,
        asked=Anything,
        summary="Anything.",
        from_loose=_looser,
    )
    found = resolve(contract.ref, Registry([contract]))
    assert isinstance(found, ResolvedSchema)
    wire = compile_for("prompted", found)
    assert isinstance(wire, WireSchema)

    assert same_json(check('{"action": 1}', found, wire), {"action": 1})
    assert same_json(check('{"deed": 1}', found, wire), {"action": {"deed": 1}})


def test_the_loose_form_of_an_action_is_still_read() -> None:
    found = resolve(AGENT_ACTION.ref, Registry([AGENT_ACTION]))
    assert isinstance(found, ResolvedSchema)
    wire = compile_for("prompted", found)
    assert isinstance(wire, WireSchema)
    tagged: JsonValue = {"actions": [{"kind": "tool_call", "name": "n", "args": {"kind": "x"}}]}

    assert same_json(check('{"name": "n", "args": {"kind": "x"}}', found, wire), tagged)


MIXED: JsonValue = ["5", 5, {"x": 1}, [1.5], None, True, {"x": "5"}]


@pytest.mark.parametrize("dialect", [*PACKING, *AS_IT_IS])
@pytest.mark.parametrize("value", ["5", 5, None, True])
@pytest.mark.parametrize("order", [1, -1])
def test_a_scalar_to_choose_beside_objects_is_what_it_is(
    dialect: DialectName, value: JsonValue, order: int
) -> None:
    assert isinstance(MIXED, list)
    schema = members(a={"enum": MIXED[::order]})

    assert same_json(published(dialect, schema, json.dumps({"a": value})), {"a": value})


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize("value", [{"x": 1}, {"x": "5"}, [1.5]])
def test_an_object_to_choose_beside_texts_is_carried(
    dialect: DialectName, value: JsonValue
) -> None:
    _, wire = asked(dialect, members(a={"enum": MIXED}))
    written = {"a": {"json_text": json.dumps(value)}}

    assert same_json(
        published(dialect, members(a={"enum": MIXED}), json.dumps(written)), {"a": value}
    )
    assert wire.schema is not None
    assert not is_valid(wire.schema, {"a": "6"})
    assert json.dumps(value, separators=(",", ":")) in json.dumps(wire.schema).replace("\\", "")


@pytest.mark.parametrize("dialect", PACKING)
@pytest.mark.parametrize("written", ["5", "null", "[]", "6"])
def test_a_text_beside_objects_to_choose_is_no_number(dialect: DialectName, written: str) -> None:
    """No text is among them, so that a string is JSON text of an object."""
    schema = members(a={"enum": [5, None, {"x": 1}]})

    assert isinstance(published(dialect, schema, json.dumps({"a": written})), failure.Invalid)
    assert same_json(published(dialect, schema, '{"a": "{\\"x\\": 1}"}'), {"a": {"x": 1}})
