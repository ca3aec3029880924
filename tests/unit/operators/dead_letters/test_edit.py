"""JSON Patch by its RFC, and edits of requests."""

import json

import pytest
from pydantic import JsonValue, TypeAdapter

from answerbus.dead_letter import PatchOperation
from services.operators.dead_letters.edit import (
    EDIT_BYTES_MAX,
    OPERATIONS_MAX,
    PROTECTED,
    Edits,
    edited,
    edits_of,
    replacing,
)
from services.operators.dead_letters.patch import EditFault, patched
from services.operators.records.dead_letter_key import DeadLetterKey
from tests.unit.worker.builders import body, nested

NOTHING = "there is nothing there (a JSON pointer is one like /context/instructions)"
OPERATIONS = TypeAdapter(tuple[PatchOperation, ...])


def apply(document: JsonValue, *operations: JsonValue) -> JsonValue | EditFault:
    before = json.dumps(document)
    found = patched(document, OPERATIONS.validate_json(json.dumps(operations)))
    assert json.dumps(document) == before
    return found


@pytest.mark.parametrize(
    ("document", "operation", "expected"),
    [
        # RFC 6902, appendix A
        (
            {"foo": "bar"},
            {"op": "add", "path": "/baz", "value": "qux"},
            {"foo": "bar", "baz": "qux"},
        ),
        (
            {"foo": ["bar", "baz"]},
            {"op": "add", "path": "/foo/1", "value": "qux"},
            {"foo": ["bar", "qux", "baz"]},
        ),
        ({"baz": "qux", "foo": "bar"}, {"op": "remove", "path": "/baz"}, {"foo": "bar"}),
        (
            {"foo": ["bar", "qux", "baz"]},
            {"op": "remove", "path": "/foo/1"},
            {"foo": ["bar", "baz"]},
        ),
        ({"baz": "qux"}, {"op": "replace", "path": "/baz", "value": "boo"}, {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            {"op": "move", "from": "/foo/waldo", "path": "/qux/thud"},
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            {"op": "move", "from": "/foo/1", "path": "/foo/3"},
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        (
            {"baz": "qux", "foo": ["a", 2, "c"]},
            {"op": "test", "path": "/foo/1", "value": 2},
            {"baz": "qux", "foo": ["a", 2, "c"]},
        ),
        (
            {"foo": "bar"},
            {"op": "add", "path": "/child", "value": {"grandchild": {}}},
            {"foo": "bar", "child": {"grandchild": {}}},
        ),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": 10}, {"/": 9, "~1": 10}),
        (
            {"foo": ["bar"]},
            {"op": "add", "path": "/foo/-", "value": ["abc", "def"]},
            {"foo": ["bar", ["abc", "def"]]},
        ),
        # further
        ({"a": 1}, {"op": "add", "path": "", "value": [1]}, [1]),
        ({"a": 1}, {"op": "add", "path": "/a", "value": None}, {"a": None}),
        ({"": 1}, {"op": "replace", "path": "/", "value": 2}, {"": 2}),
        ({"a/b": 1}, {"op": "remove", "path": "/a~1b"}, {}),
        ({"a": [1]}, {"op": "copy", "from": "/a/0", "path": "/a/0"}, {"a": [1, 1]}),
        (
            {"a": {"b": 1}},
            {"op": "copy", "from": "/a", "path": "/a/c"},
            {"a": {"b": 1, "c": {"b": 1}}},
        ),
        ({"a": 1}, {"op": "move", "from": "/a", "path": "/a"}, {"a": 1}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1.0}, {"a": 1}),
        (
            {"a": {"x": 1, "y": [2]}},
            {"op": "test", "path": "/a", "value": {"y": [2], "x": 1}},
            {"a": {"x": 1, "y": [2]}},
        ),
        ({"a": [[1], 2]}, {"op": "replace", "path": "/a/0/0", "value": 3}, {"a": [[3], 2]}),
    ],
)
def test_an_operation_does_what_the_rfc_says(
    document: JsonValue, operation: JsonValue, expected: JsonValue
) -> None:
    assert apply(document, operation) == expected


@pytest.mark.parametrize(
    ("document", "operation", "reason"),
    [
        ({"a": 1}, {"op": "remove", "path": "/b"}, "non-existent object 'b'"),
        ({"a": 1}, {"op": "remove", "path": ""}, "can't remove the whole document"),
        ({"a": 1}, {"op": "replace", "path": "/b", "value": 1}, "non-existent object 'b'"),
        ({"a": [1]}, {"op": "replace", "path": "/a/-", "value": 1}, "'-'"),
        ({"a": [1]}, {"op": "add", "path": "/a/2", "value": 1}, "outside of list"),
        ({"a": [1]}, {"op": "add", "path": "/a/01", "value": 1}, NOTHING),
        ({"a": [1]}, {"op": "add", "path": "/a/-1", "value": 1}, NOTHING),
        ({"a": [1]}, {"op": "add", "path": "/a/1_0", "value": 1}, NOTHING),
        ({"a": [1]}, {"op": "add", "path": "/a/٠", "value": 1}, NOTHING),
        ({"a": [1]}, {"op": "remove", "path": "/a/" + "9" * 5000}, NOTHING),
        ({"a": "secret"}, {"op": "add", "path": "/b/c", "value": 1}, NOTHING),
        ({"a": 1}, {"op": "add", "path": "/a/c", "value": 1}, NOTHING),
        ({"a": 1}, {"op": "add", "path": "a", "value": 1}, NOTHING),
        ({"a": 1}, {"op": "add", "path": "/a~2", "value": 1}, NOTHING),
        ({"a": 1}, {"op": "add", "path": "/a~", "value": 1}, NOTHING),
        ({"a": 1}, {"op": "add", "path": "/a" * 201, "value": 1}, "the pointer is deeper"),
        ({"a": 1}, {"op": "move", "from": "/a" * 201, "path": "/b"}, "the pointer is deeper"),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a", "path": "/a/b"}, "their own children"),
        ({"a": 1}, {"op": "move", "path": "/b"}, "a 'from' member"),
        ({"a": 1}, {"op": "copy", "from": "/b", "path": "/a"}, NOTHING),
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}, "the value is another one"),
        ({"a": False}, {"op": "test", "path": "/a", "value": 0}, "the value is another one"),
        ({"a": "1"}, {"op": "test", "path": "/a", "value": 1}, "the value is another one"),
        ({"a": None}, {"op": "test", "path": "/a", "value": []}, "the value is another one"),
    ],
)
def test_what_does_not_fit_is_said_in_words(
    document: JsonValue, operation: JsonValue, reason: str
) -> None:
    fault = apply(document, operation)

    assert isinstance(fault, EditFault)
    assert fault.reason.startswith("operation 1 (")
    assert fault.reason.endswith(reason) if reason is NOTHING else reason in fault.reason


def test_copies_of_copies_end_before_memory_does() -> None:
    double: JsonValue = {"op": "copy", "from": "", "path": "/-"}
    fault = apply(["x" * 1000], *[double] * 60)
    nest = apply(
        {},
        {"op": "add", "path": "/a", "value": nested(199)},
        {"op": "copy", "from": "", "path": "/b"},
    )

    assert isinstance(fault, EditFault)
    assert isinstance(nest, EditFault)
    assert "larger or deeper" in fault.reason
    assert nest.reason.startswith("operation 2 (copy '/b')")


def test_edits_are_for_all_or_for_each() -> None:
    large = replacing("/profile", "large")
    operation = {"op": "replace", "path": "/profile", "value": "large"}
    for_all = edits_of(json.dumps([operation]).encode())
    each = edits_of(json.dumps({"r-1.dead-letter": [operation]}).encode())

    assert for_all == Edits(for_all=(large,))
    assert isinstance(each, Edits)
    assert each.of(DeadLetterKey("w", "r-1.dead-letter")) == (large,)
    assert each.of(DeadLetterKey("w", "r-2.dead-letter")) == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "this is not one JSON document"),
        ("1", "Input should be"),
        ('[{"op":"drop","path":"/a"}]', "/0/op"),
        ('[{"op":"add","path":"/a"}]', "operation 1 (add) needs `value`"),
        ('[{"op":"move","path":"/a"}]', "operation 1 (move) needs `from`"),
        ('{"r-1":[{"op":"test","path":"/a"}]}', "operation 1 (test) needs `value`"),
        (json.dumps([{"op": "remove", "path": "/a"}] * (OPERATIONS_MAX + 1)), "at most 100"),
        (json.dumps([{"op": "add", "path": "/a", "value": "x" * EDIT_BYTES_MAX}]), "262,144 bytes"),
        (json.dumps([{"op": "remove", "path": "/" + "x" * EDIT_BYTES_MAX}]), "262,144 bytes"),
    ],
)
def test_what_is_no_edit_is_said_in_words(text: str, reason: str) -> None:
    fault = edits_of(text.encode())

    assert isinstance(fault, EditFault)
    assert reason in fault.reason


MOVED = {
    name: PatchOperation.model_validate({"op": "move", "path": "/labels", "from": f"/{name}"})
    for name in PROTECTED
}


@pytest.mark.parametrize("name", PROTECTED)
def test_who_asked_cannot_be_edited(name: str) -> None:
    request = {**body(), "replay": None, "resumed": None}
    for operation in (
        replacing(f"/{name}", "another"),
        PatchOperation(op="remove", path=f"/{name}"),
        MOVED[name],
        replacing("", {"kind": "request"}),
    ):
        fault = edited(request, [operation])
        assert isinstance(fault, EditFault)
    assert edited(request, [replacing(f"/{name}", request[name])]) == request
