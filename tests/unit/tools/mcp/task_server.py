"""An MCP server of the SDK whose tools become tasks, as the extension of 2026-07-28 has them.

The SDK has no server of the extension; this one follows
https://github.com/modelcontextprotocol/ext-tasks, specification/2026-07-28/tasks.md.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context, MCPServer

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 200
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
WHOSE = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Whose is it?", "requestedSchema": FORM},
}


class TaskParams(types.RequestParams):
    """Of all three methods."""

    task_id: str
    input_responses: dict[str, Any] | None = None


class Store:
    """Tasks by their ids, in a file if there is one: they outlive whoever asked for them."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        found = path and path.exists() and json.loads(path.read_text())
        self.tasks: dict[str, dict[str, Any]] = found or {}

    def put(self, task_id: str, **changes: Any) -> dict[str, Any]:
        known = self.tasks.setdefault(
            task_id,
            {
                "taskId": task_id,
                "status": "working",
                "createdAt": "2026-11-21T10:00:00Z",
                "lastUpdatedAt": "2026-11-21T10:00:00Z",
                "ttlMs": 3_600_000,
                "pollIntervalMs": POLL_MS,
            },
        )
        known.update(changes)
        if self._path:
            self._path.write_text(json.dumps(self.tasks))
        return known

    def end(self, task_id: str, text: str) -> None:
        result = {"content": [{"type": "text", "text": text}], "isError": False}
        self.put(task_id, status="completed", result=result)


class Tasks(Extension):
    """Calls of `build` become tasks; a call is begun once for each that was made."""

    identifier = EXTENSION

    def __init__(self, store: Store) -> None:
        self.store = store
        self.begun: list[str] = []
        self.updates: list[dict[str, Any]] = []

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self._get),
            MethodBinding("tasks/update", TaskParams, self._update),
            MethodBinding("tasks/cancel", TaskParams, self._cancel),
        ]

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: Any, call_next: CallNext
    ) -> HandlerResult:
        can = ctx.session.client_capabilities
        if params.name != "build" or EXTENSION not in ((can and can.extensions) or {}):
            return await call_next(ctx)
        asks = (params.arguments or {}).get("asks")
        task_id = f"task-{len(self.store.tasks)}"
        self.begun.append(task_id)
        more = {"status": "input_required", "inputRequests": {"whose": WHOSE}} if asks else {}
        return {"resultType": "task", **self.store.put(task_id, **more)}

    async def _get(self, _: Any, params: TaskParams) -> HandlerResult:
        return dict(self._task(params))

    async def _update(self, _: Any, params: TaskParams) -> HandlerResult:
        task = self._task(params)
        self.updates.append(params.input_responses or {})
        if task["status"] == "input_required":
            given = (params.input_responses or {}).get("whose", {})
            self.store.end(params.task_id, f"{given.get('action')} {given.get('content')}")
        return {}

    async def _cancel(self, _: Any, params: TaskParams) -> HandlerResult:
        self._task(params)
        self.store.put(params.task_id, status="cancelled")
        return {}

    def _task(self, params: TaskParams) -> dict[str, Any]:
        if params.task_id not in self.store.tasks:
            raise MCPError(code=types.INVALID_PARAMS, message="Task not found")
        return self.store.tasks[params.task_id]


def task_server(tasks: Tasks, rounds: list[dict[str, Any]] | None = None) -> MCPServer:
    """`build` becomes a task; `ship` asks for input and is called again with it."""
    server = MCPServer("builder", extensions=[tasks])

    @server.tool(structured_output=False)
    async def build(what: str, *, asks: bool = False) -> str:
        """Build something, which takes long."""
        return f"{what} without a task{' that asks' if asks else ''}"

    @server.tool(structured_output=False)
    async def ship(what: str, ctx: Context) -> str | types.InputRequiredResult:
        """Ship something to someone."""
        if rounds is not None:
            rounds.append({"responses": ctx.input_responses, "state": ctx.request_state})
        if not ctx.input_responses:
            asked: Any = {"whose": WHOSE}
            return types.InputRequiredResult(input_requests=asked, request_state=f"of {what}")
        given = ctx.input_responses["whose"]
        assert isinstance(given, types.ElicitResult)
        return f"{what}: {given.action} {given.content} {ctx.request_state}"

    return server


if __name__ == "__main__":
    file, port = Path(sys.argv[1]), int(sys.argv[2])
    task_server(Tasks(Store(file))).run(transport="streamable-http", port=port)
