"""The bridge as a client of MCP's public conformance suite: lists a server's tools, calls each.

docs/agents.md says how to run it. The suite adds the address of its server to the command, and has
in the environment what some scenarios want tools to be called with.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import JsonValue

from answerbus.continued_call import GivenInput
from answerbus.tool_call import ToolCallRecord
from answerbus.tool_result import ToolOk
from answerbus.tools.call import ToolCall
from answerbus.tools.core.asking import Ask
from answerbus.tools.core.tool import InvalidArgs, Tool
from answerbus.tools.running import Outcome, TimeLimit, run
from services.settings.settings import SetUpError
from services.tools.mcp.connection import McpConnection, McpToolset
from services.tools.mcp.session import ServerPlace, session
from services.worker.ports.costly_work import InPlace
from tests.contracts.tools.channel_in_memory import call_body

TIMEOUT_S = 20.0  # of a tool; the suite waits for 30 s
CONTEXT = "MCP_CONFORMANCE_CONTEXT"
ECHO, ECHOED = "json_schema_echo", "json_schema_2020_12_tool"  # one takes the other's schema

Args = dict[str, JsonValue]


async def main(url: str) -> int:
    """1 if the server cannot be used or a call fails."""
    failed = False
    served = McpToolset("conformance", ServerPlace(url=url), InPlace(), timeout_s=TIMEOUT_S)
    connection = McpConnection(served, session)
    keeping = asyncio.create_task(connection.keep())
    try:
        tools = (await connection.toolset).tools
        for name, args in calls(tools, json.loads(os.getenv(CONTEXT, "{}"))):
            outcome = await ended(tools[name], args)
            failed |= not isinstance(outcome, ToolOk)
            print(name, outcome)  # noqa: T201 - for who runs the suite
    except SetUpError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
    return int(failed)


def calls(tools: Mapping[str, Tool], context: Mapping[str, Any]) -> Iterator[tuple[str, Args]]:
    """The calls that the suite expects, or else one of each tool."""
    if wanted := context.get("toolCalls"):
        for call in wanted:
            # A model leaves out what the schema of the tool does not let it give as null.
            given = {key: value for key, value in call["arguments"].items() if value is not None}
            yield call["name"], given
        return
    for name, tool in tools.items():
        if name == ECHO and ECHOED in tools:
            yield name, {"schema": tools[ECHOED].card.args_schema}
        else:
            yield name, example(tool.card.args_schema)


def example(schema: Mapping[str, Any]) -> Any:
    """A value for a simple schema, by its default if it has one; None for any other."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            members = ((name, example(one)) for name, one in schema.get("properties", {}).items())
            return {name: value for name, value in members if value is not None}
        case "array":
            return []
        case "string":
            return "text"
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return None


async def ended(tool: Tool, args: Args) -> Outcome | InvalidArgs:
    """How a call ends whose questions are answered with examples."""
    state, given = None, None
    while True:
        read = tool.read_args(args)
        if isinstance(read, InvalidArgs):
            return read
        loop = asyncio.get_running_loop()
        call = ToolCall(
            ToolCallRecord.model_validate(call_body(f"c-{tool.name}")),
            TIMEOUT_S,
            lambda _: None,
            loop,
            state=state,
            given=given,
        )
        outcome = (await run(tool, read.value, call, TimeLimit(TIMEOUT_S, loop))).outcome
        if not isinstance(outcome, Ask):
            return outcome
        state = outcome.state
        given = GivenInput(value=example(outcome.question.json_schema), by="conformance")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
