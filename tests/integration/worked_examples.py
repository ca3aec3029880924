"""The worked examples of docs/agents.md, and someone who does what that page says."""

import asyncio
import json
import re
import shlex
import sys
from contextlib import redirect_stdout
from io import StringIO
from runpy import run_path
from typing import Any

from rich.console import Console

from answerbus.client.bus import Bus as Connection
from services.commands.workflow import records_of, runs_of
from services.operators.runs.rendering import tree_of
from services.operators.timeline.timeline import timeline
from tests.integration.bus import Bus
from tests.integration.tool_servers import ROOT, ToolBus

Json = dict[str, Any]

PAGE = (ROOT / "docs/agents.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Worked examples\n")[2].partition("\n## ")[0]
TITLES = re.findall(r"^### (.+)$", SECTION, re.MULTILINE)
MANIFEST: Json = {"dependencies": {"lodash": "4.17.20"}}


def example(title: str) -> dict[str, list[str]]:
    """The code of an example, by its language; that without one is a command."""
    text = SECTION.partition(f"\n### {title}\n")[2].partition("\n### ")[0]
    found: dict[str, list[str]] = {}
    for language, code in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        found.setdefault(language, []).append(code)
    assert found, title
    return found


class Reader:
    """Someone who does what the page says, on a test's own topics."""

    def __init__(self, bus: Bus, tools: ToolBus) -> None:
        self._bus, self._tools = bus, tools

    async def run(self, *programs: str) -> str:
        """What programs of the page print, side by side: in threads, since a process is dear."""
        bus = self._bus
        here = f'Client("{bus.bootstrap}", topic_prefix="{bus.prefix}")'
        files = [bus.folder / f"program-{number}.py" for number in range(len(programs))]
        for file, program in zip(files, programs, strict=True):
            assert 'Client("localhost:9092")' in program
            file.write_text(program.replace('Client("localhost:9092")', here))
        with redirect_stdout(StringIO()) as reported:
            await asyncio.gather(
                *(asyncio.to_thread(run_path, str(file), run_name="__main__") for file in files)
            )
        return reported.getvalue()

    async def tree(self, workflow_id: str) -> str:
        """What `answerbus workflow --tree` shows."""
        records = await records_of(
            Connection(self._bus.bootstrap, self._bus.prefix, {}), workflow_id
        )
        (tree,) = runs_of(timeline(workflow_id, records))
        console = Console(file=StringIO(), width=200)
        with console.capture() as captured:
            console.print(tree_of(tree, show_content=False))
        return captured.get()

    def serve(self, command: str, server: str) -> None:
        """The MCP server of the page, by the command of the page."""
        folder = self._bus.folder
        (folder / "files_server.py").write_text(server)
        (folder / "repository").mkdir()
        (folder / "repository" / "package.json").write_text(json.dumps(MANIFEST))
        words = {
            "python": sys.executable,
            "files_server.py": str(folder / "files_server.py"),
            ".": str(folder / "repository"),
        }
        program, *rest = shlex.split(command)
        assert program == "answerbus"
        arguments = [words.get(word, word) for word in rest]
        self._tools.start(sys.executable, "-m", "services.cli", *arguments)
