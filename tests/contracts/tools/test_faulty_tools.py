"""Tools whose own code fails in places where a server does not expect it: each call is answered."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, model_serializer

from answerbus.tools import ToolCall, ToolError, Toolset
from tests.contracts.tools.channel_in_memory import Broker, Serving, call_body, until

Fails = Callable[[], object]


class _NoText:
    def __str__(self) -> str:
        raise RuntimeError("secret")

    __repr__ = __str__


class _OddError(ToolError):
    @property
    def failure(self) -> Any:
        raise RuntimeError("secret")


class _NoTextError(Exception):
    __str__ = __repr__ = _NoText.__str__


class _NoJson(BaseModel):
    @model_serializer
    def give_up(self) -> Any:
        raise SystemExit("secret")


def _raise(error: BaseException) -> Any:
    raise error


def _endless() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


BODIES: dict[str, tuple[Fails, str]] = {
    "a code that is a number": (lambda: _raise(ToolError(404)), "404"),  # type: ignore[arg-type]
    "no code": (lambda: _raise(ToolError(None)), "None"),  # type: ignore[arg-type]
    "words that have no text": (lambda: _raise(ToolError("no", _NoText())), "crashed"),  # type: ignore[arg-type]
    "a failure that fails": (lambda: _raise(_OddError("no")), "crashed"),
    "an error without text": (lambda: _raise(_NoTextError()), "crashed"),
    "the end of an iteration": (lambda: _raise(StopIteration()), "crashed"),
    "a result that ends the process": (_NoJson, "not_json"),
    "a result without an end": (_endless, "not_json"),
}


def _tools(body: Fails) -> Toolset:
    tools = Toolset("deeds")

    @tools.tool
    def act(name: str) -> object:
        return body() if name == "bad" else name

    @tools.tool
    async def act_async(name: str) -> object:
        return body() if name == "bad" else name

    return tools


@pytest.mark.parametrize("tool", ["act", "act_async"])
@pytest.mark.parametrize("fault", BODIES)
async def test_a_tool_that_fails_unusually_is_answered_at_once_and_others_go_on(
    tool: str, fault: str
) -> None:
    body, code = BODIES[fault]
    broker = Broker()
    broker.put(call_body("c-1", tool=tool, args={"name": "bad"}))
    broker.put(call_body("c-2", tool=tool, args={"name": "good"}))
    serving = Serving(_tools(body), broker)

    await until(lambda: len(broker.results) == 2)
    await serving.stop()

    assert broker.outcome("c-1")["code"] == code
    assert "secret" not in broker.outcome("c-1")["message"]
    assert broker.outcome("c-2") == {"kind": "ok", "value": "good"}
    assert broker.committed.offset == 2


def noted(function: Callable[[str], Awaitable[str]]) -> Callable[[str], Awaitable[str]]:
    @functools.wraps(function)
    def call(name: str) -> Awaitable[str]:
        return function(name)

    return call


async def test_a_decorated_tool_whose_function_is_async_is_awaited() -> None:
    tools, loop = Toolset("deeds"), asyncio.get_running_loop()

    @tools.tool
    @noted
    async def act(name: str) -> str:
        assert asyncio.get_running_loop() is loop
        return _raise(KeyError(name)) if name == "c-1" else name

    broker = Broker()
    broker.put(call_body("c-1"))
    broker.put(call_body("c-2"))
    serving = Serving(tools, broker)
    await until(lambda: len(broker.results) == 2)
    await serving.stop()

    assert broker.outcome("c-1")["code"] == "crashed"
    assert broker.outcome("c-2") == {"kind": "ok", "value": "c-2"}


async def test_a_decorated_tool_whose_function_is_async_is_cancelled() -> None:
    """It went on after its time was over, and held its place until the server ended."""
    tools, cancelled = Toolset("deeds"), asyncio.Event()

    @tools.tool(timeout_s=0.05)
    @noted
    async def act(name: str) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return name

    broker = Broker()
    broker.put(call_body("c-1"))
    serving = Serving(tools, broker)
    await until(lambda: bool(broker.results))
    await serving.stop()

    assert broker.outcome("c-1")["code"] == "timed_out"
    assert cancelled.is_set()


def _fail(_: object) -> Any:
    raise KeyError("secret")


def _leave(_: object) -> Any:
    raise SystemExit("secret")


@pytest.mark.parametrize(
    "kind",
    [
        Annotated[str, AfterValidator(_fail)],
        Annotated[str, BeforeValidator(_fail)],
        Annotated[str, AfterValidator(_leave)],
    ],
)
async def test_arguments_whose_check_fails_end_their_call_and_not_the_server(kind: Any) -> None:
    tools = Toolset("deeds")

    def act(name: Any) -> str:
        raise AssertionError("never run")

    act.__annotations__["name"] = kind
    tools.tool(act)

    @tools.tool
    def other(name: str) -> str:
        return name

    broker = Broker()
    broker.put(call_body("c-1"))
    broker.put(call_body("c-2", tool="other"))
    serving = Serving(tools, broker)

    await until(lambda: len(broker.results) == 2)
    await serving.stop()

    assert broker.outcome("c-1")["code"] == "crashed"
    assert "secret" not in broker.outcome("c-1")["message"]
    assert broker.outcome("c-2")["kind"] == "ok"
    assert broker.committed.offset == 2


async def test_a_note_or_progress_that_has_no_text_fails_its_tool_alone() -> None:
    tools = Toolset("deeds")

    @tools.tool
    async def act(name: str, call: ToolCall) -> str:
        call.progress(_NoText())  # type: ignore[arg-type]
        return name

    broker = Broker()
    broker.put(call_body("c-1"))
    serving = Serving(tools, broker)
    await serving.stop_once_answered()

    assert broker.outcome("c-1")["code"] == "crashed"
