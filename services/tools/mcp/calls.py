"""One call of an MCP server's tool, from its beginning or from the place where it goes on."""

import asyncio
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from pydantic import TypeAdapter, ValidationError

from answerbus.tool_result import INPUT_REQUIRED
from answerbus.tools.call import ToolCall
from answerbus.tools.core.asking import Ask
from answerbus.tools.core.failing import ToolError
from answerbus.toolset_card import ToolCard
from services.tools.mcp.connected import Connected
from services.tools.mcp.http import NOT_SENT
from services.tools.mcp.mapping.input_requests import (
    Round,
    TaskPlace,
    question_of,
    read_place,
    responses_of,
)
from services.tools.mcp.mapping.listed import MCP_ERROR, progress_text
from services.tools.mcp.tasks import (
    CreatedTask,
    FoundTask,
    cancel_task,
    get_task,
    interval_s,
    update_task,
)

CALL_ID = "answerbus/call_id"  # in `_meta`: an idempotency key for servers that know it
DELIVERY = "answerbus/delivery"
PROGRESS_EVERY_S = 1.0  # of one call: a server may report it a thousand times a second
BUSY_MAX = 10  # times that a server may have a call made again without asking for anything
BUSY_S = 0.5  # before that

# Errors of calls that may have run: no reply came, or none that can be read.
_UNANSWERED = frozenset({types.CONNECTION_CLOSED, types.PARSE_ERROR})

Said = types.CallToolResult | types.InputRequiredResult | CreatedTask
RESULT: TypeAdapter[Said] = TypeAdapter(Said)


async def call_tool(
    connected: Connected, card: ToolCard, args: dict[str, Any], call: ToolCall
) -> types.CallToolResult | Ask:
    """The result, or what a person is to be asked first. Raises ToolError."""
    place = None if call.state is None else read_place(call.state)
    if isinstance(place, TaskPlace):
        return await _go_on(connected, place, call)
    params = types.CallToolRequestParams(name=card.name, arguments=args)
    if place is not None:
        if call.given is None:
            raise ToolError(INPUT_REQUIRED, "there is no answer to what its server asked")
        call.progress("goes on with an answer")
        params.input_responses = responses_of(place.keys, call.given)
        params.request_state = place.request_state
        while connected() is None:  # a server that starts again: the answer is passed on once
            await asyncio.sleep(BUSY_S)
    for _ in range(BUSY_MAX):
        said = await _sent(connected(), params, call, card)
        match said:
            case types.CallToolResult():
                return said
            case CreatedTask(task_id=task_id):
                created = TaskPlace(task_id=task_id)
                await call.keep(created.written())
                return await _follow(connected, created, call, said.poll_interval_ms)
            case types.InputRequiredResult(input_requests=requests, request_state=state):
                if requests:
                    at = Round(request_state=state, keys=tuple(requests))
                    return Ask(question_of(requests), at.written())
                params.input_responses, params.request_state = None, state
                await asyncio.sleep(BUSY_S)
    raise ToolError(MCP_ERROR, f"its server had the call made {BUSY_MAX} times, without a result")


async def end_task(connected: Connected, state: str) -> None:
    """A call that went on by that state is not wanted any more. Raises ToolError."""
    place = read_place(state)
    if isinstance(place, TaskPlace):
        await cancel_task(connected(), place.task_id)


async def _sent(
    client: Client | None, params: types.CallToolRequestParams, call: ToolCall, card: ToolCard
) -> Said:
    if client is None:
        raise ToolError(MCP_ERROR, "the MCP server is not connected", retryable=True)
    loop, next_s = asyncio.get_running_loop(), 0.0

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        nonlocal next_s
        if loop.time() >= next_s:
            next_s = loop.time() + PROGRESS_EVERY_S
            call.progress(progress_text(progress, total, message))

    meta: Any = {CALL_ID: call.id, DELIVERY: call.delivery, **call.trace}
    params.meta = meta
    try:
        # Not by `call_tool`: it compiles the untrusted schema of results, with a
        # library whose patterns may take for ever.
        return await client.session.send_request(
            types.CallToolRequest(params=params), RESULT, progress_callback=on_progress
        )
    except MCPError as error:
        raise _failure(error, card) from error
    except ValidationError as error:
        why = "the tool may have run: its server's reply is not a tool result"
        raise ToolError(MCP_ERROR, why) from error


def _failure(error: MCPError, card: ToolCard) -> ToolError:
    code = error.error.code
    why = f"the tool may have run: {error}" if code in _UNANSWERED else str(error)
    is_gone = code == types.CONNECTION_CLOSED and card.delivery == "at_least_once"
    return ToolError(MCP_ERROR, why, retryable=is_gone or error.error.data == NOT_SENT)


async def _go_on(
    connected: Connected, place: TaskPlace, call: ToolCall
) -> types.CallToolResult | Ask:
    """The answer of a person is kept as unused until the server has it: else it is asked again."""
    if call.given is not None:
        try:
            responses = responses_of(place.asked, call.given)
        except ToolError:
            await _give_up(connected, place)
            raise
        await call.keep(place.model_copy(update={"asked": ()}).written())
        while not await update_task(connected(), place.task_id, responses):
            await asyncio.sleep(interval_s(None, call.timeout_s))
        answered = (*place.answered, *place.asked)
        place = TaskPlace(task_id=place.task_id, answered=answered)
    await call.keep(place.written())
    return await _follow(connected, place, call, None)


async def _follow(
    connected: Connected, place: TaskPlace, call: ToolCall, poll_interval_ms: float | None
) -> types.CallToolResult | Ask:
    """Until the task has ended or asks for something; silence of its server ends the call."""
    while True:
        found = await get_task(connected(), place.task_id)
        if found is not None:
            call.progress(found.status_message or "")
            try:
                ended = _ended(found, place)
            except ToolError:
                if found.status == "input_required":
                    await _give_up(connected, place)
                raise
            if ended is not None:
                return ended
            poll_interval_ms = found.poll_interval_ms
        await asyncio.sleep(interval_s(poll_interval_ms, call.timeout_s))


async def _give_up(connected: Connected, place: TaskPlace) -> None:
    """A task that would wait for ever."""
    with suppress(ToolError):
        await cancel_task(connected(), place.task_id)


def _ended(task: FoundTask, place: TaskPlace) -> types.CallToolResult | Ask | None:
    match task.status:
        case "working":
            return None
        case "input_required":
            asked = task.input_requests or {}
            requests = {key: one for key, one in asked.items() if key not in place.answered}
            if not requests:
                return None  # it has not looked at the answers yet
            at = place.model_copy(update={"asked": tuple(requests)})
            seconds = None if task.ttl_ms is None else task.ttl_ms / 1000
            return Ask(question_of(requests, seconds), at.written())
        case "completed":
            try:
                return types.CallToolResult.model_validate(task.result, by_name=False)
            except ValidationError:
                raise ToolError(MCP_ERROR, "its task ended with an invalid result") from None
        case "failed":
            raise ToolError(MCP_ERROR, f"its task failed: {_words(task.error)}")
        case "cancelled":
            raise ToolError(MCP_ERROR, "its server has cancelled its task")


def _words(error: dict[str, Any] | None) -> str:
    words = (error or {}).get("message")
    return words if isinstance(words, str) else "it says not why"
