"""A task of an MCP server, and its question to a person, over kills of bridge and worker."""

import asyncio
import sys
from pathlib import Path

import pytest

from answerbus.partition import partition_of
from answerbus.topics import APPROVALS, RUN_TOPICS, STEPS, tool_calls, toolset_cards
from tests.integration.bus import Bus, create_topics
from tests.integration.test_mcp_servers import free_port, listens
from tests.integration.test_runs import Json, ask, say, says
from tests.integration.tool_servers import LIMIT_S, ToolBus, ending, wait_until
from tests.unit.tools.mcp.task_server import Store

pytestmark = [pytest.mark.kafka, pytest.mark.long]

AGENT = """
[agents.builder]
instructions = "You build houses."
tools = ["works.build"]
ask_person = true
"""
BUILD: Json = {
    "kind": "tool_call",
    "name": "works.build",
    "args": {"what": "a house", "asks": True},
}
RULES: list[Json] = [
    {"when": {"contains": "Ida"}, "reply": says("It is built.")},
    {"reply": {"kind": "answered", "json": {"actions": [BUILD]}}},
]


async def test_a_task_and_its_question_outlive_the_bridge_and_the_worker(
    bus: Bus, tmp_path: Path
) -> None:
    await create_topics(bus, topics=RUN_TOPICS)
    await create_topics(bus, topics=[tool_calls("works"), toolset_cards("works")])
    tasks, port = tmp_path / "tasks.json", free_port()
    with ending(ToolBus(bus.bootstrap, bus.prefix, tmp_path)) as tools:
        tools.start(sys.executable, "-m", "tests.unit.tools.mcp.task_server", str(tasks), str(port))
        wait_until(lambda: listens(port), "the server listens")
        url = ("--url", f"http://127.0.0.1:{port}/mcp", "--tool-timeout-s", "2")
        bridge = tools.serve("mcp", "works", *url)
        await tools.announced("works")
        worker = bus.start_worker(bus.config(RULES, profiles=AGENT))
        await bus.publish([ask("r-1", "w-1", agent={"name": "builder"})])

        question = await the_question(bus)
        bridge.kill()
        worker.kill()
        bridge.wait()
        bus.start_worker(bus.config(RULES, profiles=AGENT))
        assert (question["tool"], question["question"]) == ("works.build", "Whose is it?")
        answer: Json = {"kind": "input", "call_id": question["call_id"], "by": "ops"}
        answer |= {"workflow_id": "w-1", "at": question["at"]}
        place = partition_of("w-1", bus.partitions)
        for value in ({"name": 1}, {"name": "Ida"}, {"name": "Bo"}):
            await say(bus, bus.topic(APPROVALS), {**answer, "value": value}, place)
        tools.processes.remove(bridge)
        tools.serve("mcp", "works", *url)
        (result,) = await bus.terminals(1)

    steps = await bus.everything(STEPS)
    effects = [event["effect"] for event in steps if event["kind"] == "control_applied"]
    (ended,) = [event for event in steps if event["kind"] == "tool_ended"]
    assert result["answer"] == "It is built."
    assert effects == ["invalid", "answered", "nothing"]
    assert ended["outcome"] == {"kind": "ok", "value": "accept {'name': 'Ida'}"}
    assert list(Store(tasks).tasks) == ["task-0"], "the call was made once"
    assert bus.workers[-1].terminate() == 0


async def the_question(bus: Bus) -> Json:
    async with asyncio.timeout(LIMIT_S):
        while True:
            for event in await bus.everything(STEPS):
                if event["kind"] == "input_requested":
                    return event
            await asyncio.sleep(0.1)
