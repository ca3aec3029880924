"""Functions become tools: their signatures schemas, their docstrings words, their faults errors."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Annotated, Any, cast

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, RootModel

from answerbus.envelope import decode, encode
from answerbus.tools import ToolCall, Toolset
from answerbus.tools.core.failing import outcome_of
from answerbus.tools.core.function_tool import ToolSignatureError
from answerbus.tools.core.tool import InvalidArgs, Tool, ValidArgs
from answerbus.tools.echo import echo
from answerbus.toolset_card import ToolsetCard


class GetOrder(BaseModel):
    order_id: Annotated[str, Field(pattern=r"^\d+$")]
    since: date | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


@dataclass
class Receipt:
    paid: date


orders = Toolset("orders")


@orders.tool
async def get_order(args: GetOrder) -> str:
    """The state of an order."""
    return args.order_id


@orders.tool(delivery="at_most_once", approval="always", timeout_s=60)
def refund(order_id: str, cents: int = 100, *, call: ToolCall) -> str:
    """Pay an order back.

    All of it.
    """
    return f"{order_id} {cents} {call}"


@orders.tool(repeatable=True)
def keeps(args: Open) -> str:
    return str(args.model_extra)


def read(tool: Tool, args: dict[str, Any]) -> object:
    found = tool.read_args(args)
    assert isinstance(found, ValidArgs), found
    return tool.call(found.value, "the call")


def test_the_card_says_what_the_functions_say() -> None:
    card = orders.card("here")
    by_name = {tool.name: tool for tool in card.tools}

    assert by_name["get_order"].description == "The state of an order."
    assert by_name["refund"].description == "Pay an order back.\n\nAll of it."
    assert (by_name["refund"].delivery, by_name["refund"].approval) == ("at_most_once", "always")
    assert by_name["refund"].timeout_s == 60
    assert [name for name, tool in by_name.items() if tool.repeatable] == ["keeps"]
    assert by_name["refund"].args_schema["required"] == ["order_id"]
    assert set(by_name["refund"].args_schema["properties"]) == {"order_id", "cents"}  # type: ignore[arg-type]
    for tool in card.tools:
        Draft202012Validator.check_schema(tool.args_schema)
        assert tool.digest == tool.computed_digest()
    again = decode(encode(card).value)
    assert isinstance(again, ToolsetCard)
    assert again.digest == card.digest == again.computed_digest()


def test_a_function_stays_the_function_that_it_is() -> None:
    assert refund("1", call="c") == "1 100 c"  # type: ignore[arg-type]


def test_arguments_are_read_as_their_types_say() -> None:
    assert read(orders.tools["refund"], {"order_id": "7", "cents": 5}) == "7 5 the call"
    found = orders.tools["get_order"].read_args({"order_id": "7", "since": "2026-11-21"})
    assert found == ValidArgs(GetOrder(order_id="7", since=date(2026, 11, 21)))
    assert read(orders.tools["keeps"], {"name": "x", "more": 1}) == "{'more': 1}"


@pytest.mark.parametrize(
    ("tool", "args", "path"),
    [
        ("get_order", {}, "/order_id"),
        ("get_order", {"order_id": "x"}, "/order_id"),
        ("get_order", {"order_id": "1", "other": 1}, "/other"),
        ("refund", {"order_id": "1", "call": "forged"}, "/call"),
        ("refund", {"order_id": "1", "cents": "many"}, "/cents"),
    ],
)
def test_arguments_that_do_not_fit_are_named_by_their_place(
    tool: str, args: dict[str, Any], path: str
) -> None:
    found = orders.tools[tool].read_args(args)

    assert isinstance(found, InvalidArgs)
    assert [problem.path for problem in found.problems] == [path]
    schema = Draft202012Validator(orders.tools[tool].card.args_schema)
    assert not schema.is_valid(args)


def no_type(name) -> None:  # type: ignore[no-untyped-def]
    del name


def many(*names: str) -> None:
    del names


def any_names(**names: str) -> None:
    del names


def a_list(args: RootModel[list[int]]) -> None:
    del args


def two_calls(first: ToolCall, second: ToolCall) -> None:
    del first, second


def no_schema(function: Callable[[], int]) -> None:
    del function


def unknown_type(name: "NoSuchType") -> None:  # type: ignore[name-defined]  # noqa: F821
    del name


def underscored(_name: str) -> None:
    del _name


def config(model_config: str) -> None:
    del model_config


async def yields(name: str) -> AsyncIterator[str]:
    yield name


NO_TOOLS = [no_type, many, any_names, a_list, two_calls, no_schema, unknown_type]


@pytest.mark.parametrize("function", [*NO_TOOLS, underscored, config, yields])
def test_a_function_that_can_be_no_tool_says_why(function: Callable[..., Any]) -> None:
    tools = Toolset("bad")

    with pytest.raises(ToolSignatureError, match=function.__name__):
        tools.tool(function)

    assert not tools.tools


class Called:
    def __call__(self, order_id: str) -> str:
        return order_id


@pytest.mark.parametrize("name", [None, "act"])
@pytest.mark.parametrize("given", [partial(refund, "4711"), Called(), "get_order", max])
def test_what_is_not_a_function_is_refused_with_what_to_do(given: Any, name: str | None) -> None:
    with pytest.raises(ToolSignatureError, match="write a function that calls it"):
        Toolset("bad").tool(name=name)(given)


@pytest.mark.filterwarnings("ignore:Field name")
def test_a_parameter_that_no_argument_can_fill_has_its_default() -> None:
    tools = Toolset("odd")

    @tools.tool
    def act(model_extra: int, _debug: str = "off", model_config: str = "none") -> list[object]:
        return [model_extra, _debug, model_config]

    tool = tools.tools["act"]
    args = tool.read_args({"model_extra": 1})

    assert isinstance(args, ValidArgs)
    assert tool.call(args.value, None) == [1, "off", "none"]
    assert [*cast("Any", tool.card.args_schema["properties"])] == ["model_extra"]


def test_names_that_no_topic_and_no_wire_can_have_are_refused() -> None:
    for name in ("", "Orders", "or.ders", "-x", "x" * 65, "ä"):
        with pytest.raises(ValueError, match="toolset cannot be called"):
            Toolset(name)
    with pytest.raises(ToolSignatureError, match="two tools get_order"):
        orders.tool(get_order)
    with pytest.raises(ToolSignatureError, match="cannot be announced"):
        Toolset("x").tool(name="a b")(many_words)
    with pytest.raises(ToolSignatureError, match="cannot be announced"):
        Toolset("x").tool(timeout_s=float("inf"))(many_words)


def many_words(name: str) -> str:
    return name


@pytest.mark.parametrize("default", [[*range(1_000)], "x" * 30_000])
def test_a_toolset_takes_as_many_tools_as_workers_read_in_one_card(default: object) -> None:
    large = Toolset("large")
    made = orders.tools["refund"]

    def add(number: int) -> None:
        changes = {"name": f"t{number}", "args_schema": {"default": default}}
        large.add(replace(made, card=made.card.model_copy(update=changes)))

    with pytest.raises(ToolSignatureError, match="as another toolset"):
        [*map(add, range(60))]

    card = large.card("here")
    assert len(card.tools) > 25
    assert decode(encode(card, source="/tools").value) == card


def test_a_digest_changes_with_all_that_a_card_says() -> None:
    card = orders.tools["refund"].card
    changes: list[dict[str, Any]] = [
        {"description": "Pay less back."},
        {"delivery": "at_least_once"},
        {"approval": "never"},
        {"timeout_s": 60.5},
        {"args_schema": {"type": "object"}},
        {"name": "refund2"},
    ]
    digests = {card.model_copy(update=change).computed_digest() for change in changes}

    assert len(digests | {card.computed_digest()}) == len(changes) + 1


def test_what_is_returned_becomes_json() -> None:
    assert outcome_of(Receipt(date(2026, 11, 21))).model_dump() == {
        "kind": "ok",
        "value": {"paid": "2026-11-21"},
    }
    assert outcome_of(GetOrder(order_id="1")).kind == "ok"
    cyclic: list[object] = []
    cyclic.append(cyclic)
    deep: object = None
    for _ in range(300):
        deep = [deep]
    for bad in (cyclic, deep, object(), {"x": float("inf")}, "\ud800"):
        failure = outcome_of(bad)
        assert failure.kind == "error"
        assert failure.code == "not_json"


def test_a_large_value_is_shown_as_it_begins_whatever_its_characters() -> None:
    failure = outcome_of("ä" * 40_000)

    assert failure.kind == "error"
    assert failure.code == "too_large"
    assert failure.message.startswith('80002 bytes, of at most 65536; it begins: "ää')
    assert len(failure.message.encode()) <= 2_048


def test_the_echo_tool_returns_its_text() -> None:
    assert read(echo.tools["echo"], {"phrase": "Hello"}) == "Hello"
    assert json.dumps(echo.card().model_dump(mode="json"))
