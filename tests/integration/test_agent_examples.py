"""The worked examples of docs/agents.md, taken from that page and run with a scripted model."""

import asyncio
import json
import re
import shlex
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from rich.console import Console

from answerbus.client.bus import Bus as Connection
from answerbus.topics import RESULTS, RUN_TOPICS, STEPS
from services.commands.workflow import records_of, runs_of
from services.operators.runs.rendering import tree_of
from services.operators.timeline.timeline import timeline
from tests.integration.bus import Bus, create_topics
from tests.integration.tool_servers import ROOT, ToolBus, ending

pytestmark = pytest.mark.kafka

Json = dict[str, Any]

PAGE = (ROOT / "docs/agents.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Worked examples\n")[2].partition("\n## ")[0]
LINES_MAX = 40
MANIFEST: Json = {"dependencies": {"lodash": "4.17.20"}}
BUMP: Json = {
    "kind": "dep_bump",
    "manifest_path": "package.json",
    "package": "lodash",
    "target_version": "4.17.21",
}
JOURNEY: Json = {
    "train": "Friday, 16:05",
    "hotel": "By the fjord",
    "sights": ["Opera", "Holmenkollen"],
    "total_euros": 812.5,
}


def example(title: str) -> dict[str, list[str]]:
    """The code of an example, by its language; that without one is a command."""
    text = SECTION.partition(f"\n### {title}\n")[2].partition("\n### ")[0]
    found: dict[str, list[str]] = {}
    for language, code in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        found.setdefault(language, []).append(code)
    assert found, title
    return found


TITLES = re.findall(r"^### (.+)$", SECTION, re.MULTILINE)


def reply(*actions: Json, tokens: int = 100) -> Json:
    usage = {"input_tokens": tokens, "output_tokens": 10}
    return {"kind": "answered", "json": {"actions": [*actions]}, "usage": usage}


def finish(args: Json) -> Json:
    return {"kind": "finish", "args": args}


def search(name: str, schema: Json) -> Json:
    """A part, with a schema as a model writes one."""
    args = {"name": name, "description": f"What {name} there are.", "json_schema": schema}
    args["instructions"] = f"Search for {name} in Oslo."
    return {"kind": "tool_call", "name": "delegate", "args": args}


def listing(**properties: Json) -> Json:
    closed = {"type": "object", "properties": properties, "required": [*properties]}
    return {**closed, "additionalProperties": False}


SEARCHES: dict[str, Json] = {
    "trains": listing(departures={"type": "array", "items": {"type": "string"}}),
    "hotel": listing(name={"type": "string"}, euros={"type": "number", "minimum": 0}),
    "sights": listing(names={"type": "array", "minItems": 2, "items": {"type": "string"}}),
}
FOUND: dict[str, Json] = {
    "trains": {"departures": ["Friday, 16:05", "Friday, 18:10"]},
    "hotel": {"name": "By the fjord", "euros": 420},
    "sights": {"names": ["Opera", "Holmenkollen"]},
}


def specialist(name: str) -> Json:
    answer = {"success": True, "output": FOUND[name], "notes": [], "failure_reason": None}
    fields = {"kind": "answered", "json": answer, "usage": {"input_tokens": 50, "output_tokens": 5}}
    return {"when": {"schema_name": name}, "reply": fields}


READ: Json = {"kind": "tool_call", "name": "files.read_file", "args": {"path": "package.json"}}
REPLY: Json = {"text": "It was sent on Monday.", "promises": []}
CHOICE: Json = {"reason": "It promises nothing.", "element_id": "call:1.1"}
RULES: list[Json] = [
    {"when": {"schema_name": "selection"}, "reply": {"kind": "answered", "json": CHOICE}},
    {"when": {"contains": "order 4711"}, "reply": {"kind": "answered", "json": REPLY}},
    {"when": {"contains": "call:1.2 delegate"}, "reply": reply(finish(JOURNEY))},
    *map(specialist, FOUND),
    {
        "when": {"contains": "Plan a weekend in Oslo"},
        "reply": reply(*(search(name, schema) for name, schema in SEARCHES.items())),
    },
    {
        "when": {"contains": "4.17.20"},
        "reply": reply(finish({**BUMP, "rationale": "It is declared as 4.17.20."})),
    },
    {"when": {"contains": "is vulnerable"}, "reply": reply(READ)},
]


def test_each_example_is_short() -> None:
    for title in TITLES:
        blocks = [code for codes in example(title).values() for code in codes]
        assert sum(len(code.strip().splitlines()) for code in blocks) <= LINES_MAX, title


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


async def test_the_examples_do_what_the_page_says(bus: Bus, tmp_path: Path) -> None:
    """One worker has the agents of all of them."""
    journey, assistant = example("A journey in three parts"), example("A repository assistant")
    choice = example("A proposer and a selector")
    await create_topics(bus, topics=RUN_TOPICS)
    with ending(ToolBus(bus.bootstrap, bus.prefix, tmp_path)) as tools:
        await tools.create("files")
        reader = Reader(bus, tools)
        server, asking = assistant["python"]
        agents = "".join((*journey["toml"], *assistant["toml"], *choice["toml"]))
        reader.serve(assistant[""][0], server)
        await tools.announced("files")
        bus.start_worker(bus.config(RULES, profiles=agents))  # it reads what is announced first
        reported = await reader.run(journey["python"][0], asking, choice["python"][0])
        tree = await reader.tree("journey-1")

    assert "train='Friday, 16:05'" in reported
    assert "total_euros=812.5" in reported
    assert "target_version='4.17.21'" in reported
    assert "It was sent on Monday." in reported
    results = await bus.everything(RESULTS)
    children = [result["answer"] for result in results if result.get("parent")]
    assert children.count(REPLY) == 3
    outputs = [answer["output"] for answer in children if answer != REPLY]
    assert sorted(map(json.dumps, outputs)) == sorted(map(json.dumps, FOUND.values()))
    steps = await bus.everything(STEPS)
    ended = [event["outcome"] for event in steps if event["kind"] == "tool_ended"]
    assert [outcome["kind"] for outcome in ended] == ["ok"] * 7
    (chosen,) = (event for event in steps if event.get("composed") == "select")
    assert CHOICE["reason"] in chosen["said"][0]
    assert "travel v1 · 1 step · 5 attempts of 20 · 385 tokens · itself 2 attempts, 220" in tree
    assert tree.count("1 attempt · 55 tokens · answered") == 3
    assert bus.workers[-1].terminate() == 0
