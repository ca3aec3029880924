"""Calls that an MCP server of the SDK answers with a task, or with a request for input."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import nan
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer

from answerbus.continued_call import GivenInput
from answerbus.limits import RUN_TTL_S_MAX
from answerbus.tool_call import ToolCallRecord
from answerbus.tool_result import INPUT_REQUIRED, ToolFailure, ToolOk
from answerbus.tools.call import ToolCall
from answerbus.tools.core.asking import Ask
from answerbus.tools.core.failing import ToolError
from answerbus.tools.core.tool import Tool
from answerbus.tools.running import Outcome, RunEnded, TimeLimit, run
from services.tools.mcp.bridge import toolset_of
from services.tools.mcp.mapping.input_requests import (
    AT_ONCE_MAX,
    Round,
    TaskPlace,
    question_of,
    read_place,
    responses_of,
)
from services.tools.mcp.screening import ScreenedTransport
from services.tools.mcp.tasks import POLL_S_MAX, POLL_S_MIN, interval_s
from services.worker.ports.costly_work import InPlace
from tests.contracts.tools.channel_in_memory import LIMIT_S, call_body, until
from tests.unit.tools.mcp.task_server import FORM, WHOSE, Store, Tasks, task_server

TIMEOUT_S = 0.15  # of a tool: so a task is looked at every 50 ms


@asynccontextmanager
async def bridged(server: MCPServer) -> AsyncIterator[Callable[[str], Tool]]:
    """The tools of a server, as a bridge offers them."""
    async with Client(ScreenedTransport(InMemoryTransport(server)), cache=None) as client:
        toolset = await toolset_of(
            client, lambda: client, "mcp", InPlace(), approval="never", timeout_s=5.0
        )
        yield lambda name: toolset.tools[name]


class Call:
    """One delivery, and what is written down for the next one."""

    def __init__(self, state: str | None = None, value: Any = None, *, given: bool = False) -> None:
        self.kept: list[str] = []
        self.notes: list[str] = []
        self._state, self._given = state, GivenInput(value=value, by="ops") if given else None

    async def keep(self, state: str) -> None:
        self.kept.append(state)

    async def of(self, tool: Tool, **args: Any) -> Outcome | Ask:
        loop = asyncio.get_running_loop()
        call = ToolCall(
            ToolCallRecord.model_validate(call_body("c-1")),
            TIMEOUT_S,
            self.notes.append,
            loop,
            state=self._state,
            given=self._given,
            keep=self.keep,
        )
        ended: RunEnded = await asyncio.wait_for(
            run(tool, args, call, TimeLimit(60.0, loop)), LIMIT_S
        )
        return ended.outcome


async def test_a_task_is_followed_to_its_result_and_its_id_is_kept_first() -> None:
    tasks = Tasks(Store())
    async with bridged(task_server(tasks)) as tool:
        call = Call()
        running = asyncio.create_task(call.of(tool("build"), what="a house"))
        await until(lambda: call.kept)
        assert read_place(call.kept[0]) == TaskPlace(task_id="task-0")
        tasks.store.put("task-0", statusMessage="half")
        await until(lambda: "half" in call.notes)
        tasks.store.end("task-0", "a house")

        assert await running == ToolOk(value="a house")
        assert tasks.begun == ["task-0"]


async def test_another_bridge_goes_on_with_the_task_and_begins_no_other() -> None:
    store = Store()
    async with bridged(task_server(Tasks(store))) as tool:
        first = Call()
        running = asyncio.create_task(first.of(tool("build"), what="a house"))
        await until(lambda: first.kept)
        running.cancel()
    store.end("task-0", "a house")
    tasks = Tasks(store)
    async with bridged(task_server(tasks)) as tool:
        again = Call(first.kept[-1])

        assert await again.of(tool("build"), what="a house") == ToolOk(value="a house")
        assert tasks.begun == []


async def test_a_task_asks_a_person_and_goes_on_with_the_answer_in_another_bridge() -> None:
    store = Store()
    async with bridged(task_server(Tasks(store))) as tool:
        asked = await Call().of(tool("build"), what="a house", asks=True)
    assert isinstance(asked, Ask)
    assert (asked.question.question, asked.question.json_schema) == ("Whose is it?", FORM)
    assert asked.question.expires_s == 3_600
    tasks = Tasks(store)
    async with bridged(task_server(tasks)) as tool:
        call = Call(asked.state, {"name": "Ida"}, given=True)
        ended = await call.of(tool("build"), what="a house", asks=True)

    assert ended == ToolOk(value="accept {'name': 'Ida'}")
    assert tasks.begun == []
    kept = [read_place(one) for one in call.kept]
    assert kept == [TaskPlace(task_id="task-0"), TaskPlace(task_id="task-0", answered=("whose",))]


async def test_an_answer_that_a_server_has_not_looked_at_yet_is_not_asked_for_again() -> None:
    store, tasks = Store(), Tasks(Store())
    tasks.store = store
    store.put("task-0", status="input_required", inputRequests={"whose": WHOSE})
    async with bridged(task_server(tasks)) as tool:
        call = Call(TaskPlace(task_id="task-0", answered=("whose",)).written())
        running = asyncio.create_task(call.of(tool("build"), what="a house"))
        await until(lambda: len(call.notes) > 1)
        store.end("task-0", "a house")

        assert await running == ToolOk(value="a house")


async def test_a_call_is_made_again_with_the_answer_and_the_state_of_its_server() -> None:
    rounds = list[dict[str, Any]]()
    async with bridged(task_server(Tasks(Store()), rounds)) as tool:
        asked = await Call().of(tool("ship"), what="a house")
        assert isinstance(asked, Ask)
        ended = await Call(asked.state, {"name": "Ida"}, given=True).of(
            tool("ship"), what="a house"
        )
        declined = await Call(asked.state, given=True).of(tool("ship"), what="a house")
        unanswered = await Call(asked.state).of(tool("ship"), what="a house")

    assert ended == ToolOk(value="a house: accept {'name': 'Ida'} of a house")
    assert declined == ToolOk(value="a house: decline None of a house")
    assert isinstance(unanswered, ToolFailure)
    assert unanswered.code == INPUT_REQUIRED
    assert len(rounds) == 3


@pytest.mark.wide
async def test_an_answer_waits_for_a_server_that_starts_again() -> None:
    transport = ScreenedTransport(InMemoryTransport(task_server(Tasks(Store()))))
    async with Client(transport, cache=None) as client:
        connected: Client | None = client
        toolset = await toolset_of(
            client, lambda: connected, "mcp", InPlace(), approval="never", timeout_s=5.0
        )
        ship = toolset.tools["ship"]
        asked = await Call().of(ship, what="a house")
        assert isinstance(asked, Ask)
        connected = None
        call = Call(asked.state, {"name": "Ida"}, given=True)
        running = asyncio.create_task(call.of(ship, what="a house"))
        await until(lambda: call.notes)
        connected = client

        assert isinstance(await running, ToolOk)


@pytest.mark.parametrize(
    ("task", "code"),
    [
        ({"status": "failed", "error": {"code": -32603, "message": "no"}}, "mcp_error"),
        ({"status": "failed"}, "mcp_error"),
        ({"status": "cancelled"}, "mcp_error"),
        ({"status": "completed", "result": {"content": "no"}}, "mcp_error"),
        ({"status": "completed"}, "mcp_error"),
        (
            {
                "status": "completed",
                "result": {"content": [{"type": "text", "text": "no"}], "isError": True},
            },
            "tool_error",
        ),
        ({"status": "odd"}, "mcp_error"),
        (None, "task_lost"),
    ],
)
async def test_how_a_task_ends_is_how_its_call_ends(task: dict[str, Any] | None, code: str) -> None:
    store = Store()
    if task is not None:
        store.put("task-0", **task)
    async with bridged(task_server(Tasks(store))) as tool:
        place = TaskPlace(task_id="task-0").written()
        outcome = await Call(place).of(tool("build"), what="a house")

    assert isinstance(outcome, ToolFailure)
    assert outcome.code == code


async def test_a_task_that_nobody_wants_or_that_asks_too_much_is_cancelled() -> None:
    store = Store()
    store.put("task-0")
    odd = {"method": "roots/list", "params": {}}
    store.put("task-1", status="input_required", inputRequests={"a": odd})
    async with bridged(task_server(Tasks(store))) as tool:
        build = tool("build")
        assert build.cancel is not None
        await build.cancel(TaskPlace(task_id="task-0").written())
        await build.cancel(Round(request_state=None, keys=("a",)).written())
        outcome = await Call(TaskPlace(task_id="task-1").written()).of(build, what="a house")

    assert [task["status"] for task in store.tasks.values()] == ["cancelled", "cancelled"]
    assert isinstance(outcome, ToolFailure)
    assert outcome.code == INPUT_REQUIRED


async def test_a_task_whose_answer_cannot_be_passed_on_is_cancelled() -> None:
    store = Store()
    store.put("task-0", status="input_required", inputRequests={"whose": WHOSE})
    async with bridged(task_server(Tasks(store))) as tool:
        place = TaskPlace(task_id="task-0", asked=("whose",)).written()
        outcome = await Call(place, [1], given=True).of(tool("build"), what="a house")

    assert isinstance(outcome, ToolFailure)
    assert store.tasks["task-0"]["status"] == "cancelled"


def requests(**those: Any) -> Any:
    body = {"resultType": "input_required", "inputRequests": those}
    return types.InputRequiredResult.model_validate(body).input_requests


def form(schema: Any = FORM, message: str = "Whose?") -> dict[str, Any]:
    params = {"message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def test_several_requests_are_one_form_and_one_answer() -> None:
    question = question_of(requests(a=form(), b=form(message="And this?")))

    assert question.question == "Whose?\nAnd this?"
    assert question.json_schema == {
        "type": "object",
        "properties": {"a": FORM, "b": FORM},
        "required": ["a", "b"],
    }
    given = GivenInput(value={"a": {"name": "Ida"}, "b": {"name": "Bo"}}, by="ops")
    found = responses_of(("a", "b"), given)
    assert {key: one.content for key, one in found.items()} == given.value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "asked",
    [
        {"a": {"method": "roots/list", "params": {}}},
        {"a": form({"type": "string"})},
        {"a": form({"type": "object", "properties": {"x": {"enum": ["x" * 5_000]}}})},
        {f"k{n}": form() for n in range(AT_ONCE_MAX + 1)},
        {
            "a": {
                "method": "elicitation/create",
                "params": {"mode": "url", "message": "!", "url": "https://evil.example"},
            }
        },
    ],
)
def test_what_no_person_can_be_asked_ends_the_call(asked: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as found:
        question_of(requests(**asked))
    assert found.value.code == INPUT_REQUIRED


@pytest.mark.parametrize("value", ["text", [1], {"a": {"b": 1}}, {"a": [{"b": 1}]}])
def test_an_answer_that_mcp_has_no_form_for_ends_the_call(value: Any) -> None:
    with pytest.raises(ToolError):
        responses_of(("a",), GivenInput(value=value, by="ops"))


def test_a_state_is_bounded_and_that_of_another_version_is_refused() -> None:
    with pytest.raises(ToolError, match="bytes"):
        Round(request_state="x" * 20_000, keys=("a",)).written()
    endless = question_of(requests(a=form()), float("inf"))
    assert endless.expires_s == RUN_TTL_S_MAX
    for odd in ("", "{}", '{"kind": "task"}', '{"kind": "other", "task_id": "x"}'):
        with pytest.raises(ToolError):
            read_place(odd)


@pytest.mark.parametrize(
    ("wanted_ms", "expected"),
    [
        (None, 2.0),
        (1, POLL_S_MIN),
        (-5, POLL_S_MIN),
        (nan, POLL_S_MIN),
        (1e12, POLL_S_MAX),
        (5_000, 5.0),
    ],
)
def test_a_server_is_looked_at_neither_all_the_time_nor_too_seldom(
    wanted_ms: float | None, expected: float
) -> None:
    assert interval_s(wanted_ms, 3_600) == expected
    assert interval_s(wanted_ms, 0.9) == pytest.approx(0.3)
