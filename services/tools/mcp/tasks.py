"""Tasks of an MCP server: what the bridge asks of one, by the extension `tasks` of 2026-07-28.

https://github.com/modelcontextprotocol/ext-tasks, specification/2026-07-28/tasks.md. The SDK has
the extension's types of the version before alone.
"""

from typing import Any, Literal, TypeVar

import mcp_types as types
from mcp import Client, MCPError
from pydantic import ValidationError

from answerbus.tools.core.failing import ToolError
from services.tools.mcp.mapping.listed import MCP_ERROR

EXTENSION = "io.modelcontextprotocol/tasks"
TASK_LOST = "task_lost"  # the server does not know the task: whether the tool ran is unknown
POLL_S_DEFAULT = 2.0
POLL_S_MIN, POLL_S_MAX = 1.0, 30.0
_POLLS_A_TIMEOUT = 3  # at least, since each is a sign of life
_REFUSED = frozenset({types.INVALID_PARAMS, types.METHOD_NOT_FOUND})

ResultT = TypeVar("ResultT", bound=types.Result)


class CreatedTask(types.Result):
    """The server answers a call with a task."""

    result_type: Literal["task"]
    task_id: str
    poll_interval_ms: float | None = None


class FoundTask(types.Result):
    """How a task stands; what comes with its state is looked at apart."""

    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = None
    ttl_ms: float | None = None
    poll_interval_ms: float | None = None
    input_requests: types.InputRequests | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _Named(types.RequestParams):
    task_id: str


class _Update(_Named):
    input_responses: types.InputResponses


class _GetTask(types.Request[_Named, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class _UpdateTask(types.Request[_Update, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class _CancelTask(types.Request[_Named, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


def interval_s(poll_interval_ms: float | None, timeout_s: float) -> float:
    """How long to wait before the task is looked at again."""
    wanted = POLL_S_DEFAULT if poll_interval_ms is None else poll_interval_ms / 1000
    # In this order NaN is the shortest; with the other, it would be no wait at all.
    return min(max(POLL_S_MIN, wanted), POLL_S_MAX, timeout_s / _POLLS_A_TIMEOUT)


async def get_task(client: Client | None, task_id: str) -> FoundTask | None:
    """None if the server cannot be asked now. Raises ToolError if it knows no such task."""
    request = _GetTask(params=_Named(task_id=task_id))
    return await _asked(client, request, FoundTask)


async def update_task(client: Client | None, task_id: str, given: types.InputResponses) -> bool:
    """Whether the server has the responses; it ignores those that it had. Raises ToolError."""
    request = _UpdateTask(params=_Update(task_id=task_id, input_responses=given))
    return await _asked(client, request, types.EmptyResult) is not None


async def cancel_task(client: Client | None, task_id: str) -> None:
    """The server may go on with it. Raises ToolError."""
    await _asked(client, _CancelTask(params=_Named(task_id=task_id)), types.EmptyResult)


async def _asked(
    client: Client | None, request: types.Request[Any, Any], result: type[ResultT]
) -> ResultT | None:
    if client is None:
        return None
    try:
        return await client.session.send_request(request, result)
    except MCPError as error:
        if error.error.code not in _REFUSED:
            return None
        why = "its server does not know its task any more; whether it ran is not known"
        raise ToolError(TASK_LOST, f"{why}: {error}") from error
    except ValidationError as error:
        raise ToolError(MCP_ERROR, "its server does not say how its task is") from error
