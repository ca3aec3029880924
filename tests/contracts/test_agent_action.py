"""The contract agent_action: three kinds of actions, one form when published, no guesses."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from answerbus.answers.agent_action import (
    ACTIONS_MAX,
    AGENT_ACTION,
    AgentAction,
    TextResponse,
    Thought,
    ToolCall,
)
from answerbus.limits import NAME_CHARS_MAX
from tests.oracle import is_valid

CALL: dict[str, JsonValue] = {"kind": "tool_call", "name": "search", "args": {"q": ["x", {}]}}
TEXT: dict[str, JsonValue] = {"kind": "text_response", "content": "Done."}
THOUGHT: dict[str, JsonValue] = {"kind": "thought", "content": "It is late."}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
ACTIONS = st.one_of(
    st.builds(
        lambda name, args: {"kind": "tool_call", "name": name, "args": args},
        st.text(min_size=1, max_size=20),
        st.dictionaries(st.text(), JSON, max_size=3),
    ),
    st.builds(
        lambda kind, content: {"kind": kind, "content": content},
        st.sampled_from(["text_response", "thought"]),
        st.text(),
    ),
)


def codes(answer: object) -> list[tuple[str, tuple[int | str, ...]]]:
    try:
        AGENT_ACTION.adapter.validate_json(json.dumps(answer), strict=True)
    except ValidationError as error:
        return [(found["type"], found["loc"]) for found in error.errors()]
    return []


def loose(value: Any) -> JsonValue:
    return AGENT_ACTION.from_loose(value)


def test_actions_come_in_the_order_in_which_they_are_to_be_taken() -> None:
    answer = AGENT_ACTION.adapter.validate_json(json.dumps({"actions": [THOUGHT, CALL, TEXT]}))

    assert answer == AgentAction(
        actions=(
            Thought(kind="thought", content="It is late."),
            ToolCall(kind="tool_call", name="search", args={"q": ["x", {}]}),
            TextResponse(kind="text_response", content="Done."),
        )
    )


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (CALL | {"args": "{}"}, "dict_type"),
        (CALL | {"args": ["x"]}, "dict_type"),
        (CALL | {"args": None}, "dict_type"),
        (CALL | {"name": 7}, "string_type"),
        (CALL | {"name": ""}, "string_too_short"),
        (CALL | {"name": "x" * (NAME_CHARS_MAX + 1)}, "string_too_long"),
        (CALL | {"content": "x"}, "extra_forbidden"),
        (TEXT | {"content": None}, "string_type"),
        (TEXT | {"content": [{"type": "text", "text": "x"}]}, "string_type"),
        (TEXT | {"confidence": 0.9}, "extra_forbidden"),
        (TEXT | {"kind": "Text_Response"}, "union_tag_invalid"),
        (TEXT | {"kind": "tool_result"}, "union_tag_invalid"),
        ({"content": "x"}, "union_tag_not_found"),
        ({"name": "x", "args": {}}, "union_tag_not_found"),
        ([CALL], "dict_type"),
        ("Done.", "dict_type"),
    ],
)
def test_one_bad_action_spoils_them_all(action: object, code: str) -> None:
    found = codes({"actions": [THOUGHT, action]})

    assert (found[0][0], found[0][1][:2]) == (code, ("actions", 1))


@pytest.mark.parametrize("answer", [CALL, [CALL], {"actions": [CALL], "more": 1}, "x", None])
def test_what_is_no_object_of_actions_is_no_answer(answer: object) -> None:
    assert codes(answer) != []


def test_there_are_one_to_five_hundred_actions() -> None:
    assert codes({"actions": []}) == [("too_short", ("actions",))]
    assert codes({"actions": [TEXT] * ACTIONS_MAX}) == []
    assert codes({"actions": [TEXT] * (ACTIONS_MAX + 1)}) == [("too_long", ("actions",))]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (CALL, {"actions": [CALL]}),
        ([THOUGHT, TEXT], {"actions": [THOUGHT, TEXT]}),
        ({"name": "x", "args": {"kind": "y"}}, {"actions": [
            {"kind": "tool_call", "name": "x", "args": {"kind": "y"}}]}),
        ([{"args": {}, "name": "x"}, TEXT], {"actions": [
            {"kind": "tool_call", "name": "x", "args": {}}, TEXT]}),
        ({"actions": [{"name": "x", "args": {}}]}, {"actions": [
            {"kind": "tool_call", "name": "x", "args": {}}]}),
    ],
)  # fmt: skip
def test_bare_and_untagged_forms_are_read_as_what_they_can_only_mean(
    value: JsonValue, read: JsonValue
) -> None:
    assert loose(value) == read
    assert codes(read) == []


@pytest.mark.parametrize(
    "value",
    [
        {"content": "said or thought?"},
        {"tool_call": {"name": "x", "args": {}}},
        {"type": "function", "function": {"name": "x", "arguments": "{}"}},
        {"name": "x"},
        {"name": "x", "args": {}, "id": "call_1"},
        {"name": "x", "args": "{}"},
        {"kind": None, "name": "x", "args": {}},
        {"actions": [CALL], "more": 1},
        {"actions": CALL},
        {"actions": [[CALL]]},
        [[CALL]],
        ["Done."],
        [],
        "Done.",
        '{"kind":"text_response","content":"x"}',
        7,
        None,
        {},
    ],
)
def test_no_other_form_becomes_an_answer(value: JsonValue) -> None:
    assert codes(loose(value)) != []


def test_what_may_mean_two_things_keeps_its_words() -> None:
    """So that the problems, and what a model sees of its answer again, are about what it wrote."""
    unclear: JsonValue = {"content": "said or thought?"}

    assert loose(unclear) == loose([unclear]) == {"actions": [unclear]}


@pytest.mark.wide
@given(st.lists(ACTIONS, min_size=1, max_size=4))
def test_reading_loosely_changes_no_answer_and_its_data_stay_as_they_are(actions: Any) -> None:
    answer = {"actions": actions}
    written = AGENT_ACTION.adapter.dump_json(
        AGENT_ACTION.adapter.validate_json(json.dumps(answer), strict=True)
    )

    assert json.loads(written) == answer
    assert loose(answer) == loose(actions) == answer
    assert is_valid(AGENT_ACTION.schema(), answer)


@pytest.mark.wide
@given(JSON | st.lists(ACTIONS))
def test_whatever_is_read_loosely_is_an_answer_or_none_and_the_schema_agrees(value: Any) -> None:
    read = loose(value)

    assert loose(read) == read
    assert is_valid(AGENT_ACTION.schema(), read) == (codes(read) == [])
