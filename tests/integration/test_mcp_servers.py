"""MCP servers of others, from registries, over stdio and HTTP, as tools on the bus."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from answerbus.client.bus import Bus
from answerbus.tool_result import ToolFailure, ToolOk
from answerbus.toolset_card import ToolsetCard
from services.tools.caller import cards
from tests.integration.tool_servers import LIMIT_S, ToolBus, wait_until

pytestmark = pytest.mark.kafka

FROM_PYPI = "mcp-server-time==2026.10.19"
LONG = "trigger-long-running-operation"
FROM_NPM = "@modelcontextprotocol/server-everything@2026.8.31"


async def run(*command: str | Path, folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *map(str, command), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    assert process.returncode == 0, out.decode()


async def from_pypi(folder: Path) -> Path:
    uv, python = Path(sys.executable).parent / "uv", folder / "bin/python"
    await run(uv, "venv", "--quiet", "--python", sys.executable, folder, folder=folder.parent)
    await run(uv, "pip", "install", "--quiet", "--python", python, FROM_PYPI, folder=folder)
    return folder / "bin/mcp-server-time"


async def from_npm(npm: str, folder: Path) -> Path:
    folder.mkdir()  # noqa: ASYNC240 - a moment, in a test
    quiet = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
    await run(npm, "install", *quiet, FROM_NPM, folder=folder)
    return folder / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"


async def test_servers_of_others_keep_the_rules_over_stdio_and_http(tools: ToolBus) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("no npm and node on the path")
    program, script, _ = await asyncio.gather(
        from_pypi(tools.folder / "time"),
        from_npm(npm, tools.folder / "every"),
        tools.create("time", "every"),
    )
    port = free_port()
    tools.start(node, str(script), "streamableHttp", PORT=str(port))
    wait_until(lambda: listens(port), "the server listens")
    url = ("--url", f"http://127.0.0.1:{port}/mcp")
    tools.serve("mcp", "time", "--", str(program))
    tools.serve("mcp", "every", *url)
    await tools.announced("time", "every")

    now, _ = await tools.call("time", "get_current_time", {"timezone": "UTC"})
    nowhere, _ = await tools.call("time", "get_current_time", {"timezone": "Nowhere"})
    long, notes = await tools.call("every", LONG, {"duration": 1, "steps": 3})

    assert isinstance(now.outcome, ToolOk)
    assert "UTC" in json.dumps(now.outcome.value)
    assert isinstance(nowhere.outcome, ToolFailure)
    assert nowhere.outcome.code == "tool_error"
    assert isinstance(long.outcome, ToolOk)
    assert "1 of 3" in notes
    assert await tools.broken_rules("time", "get_current_time", {"timezone": "UTC"}) == {}
    assert await tools.broken_rules("every", "echo", {"message": "Hello"}) == {}
    await assert_pinned(tools, url)


async def assert_pinned(tools: ToolBus, url: tuple[str, str]) -> None:
    """The card says the digest to pin, and other tools than those are not served."""
    found = await cards(Bus(tools.bootstrap, tools.prefix, {}))
    card = next(one for one in found if isinstance(one, ToolsetCard) and one.toolset == "every")
    deliveries = {tool.name: tool.delivery for tool in card.tools}
    refused = tools.command("mcp", "every", *url, "--pin", "sha256:" + "0" * 64)

    assert card.written_by == "mcp"
    assert deliveries["echo"] == "at_least_once"
    assert deliveries["gzip-file-as-resource"] == "at_most_once"
    assert refused.returncode == 3
    assert re.findall(r"sha256:[0-9a-f]{64}", refused.stderr) == [card.computed_digest()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == os.EX_OK
