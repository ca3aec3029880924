"""Tool servers on a real broker: ours, in Java and with FastStream, and under kill -9."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.tool_servers import LIMIT_S, ROOT, ToolBus, wait_until

pytestmark = pytest.mark.kafka

ECHO = ("echo", {"phrase": "Hello"})
PATIENCE = ("--timeout-s", str(LIMIT_S / 2))


def java() -> list[str]:
    """A Java that compiles, with the jars of the brokers of tests; the runtime of these cannot."""
    from infra.kafka.java import java_command  # noqa: PLC0415 - only where it is needed

    found = shutil.which("java")
    if found is None:
        pytest.skip("no java on the path")
    modules = subprocess.run([found, "--list-modules"], capture_output=True, text=True, check=True)
    if "jdk.compiler" not in modules.stdout:
        pytest.skip("the java on the path does not compile")
    return [found, *java_command()[-2:]]


async def test_the_first_tool_of_the_page_is_served_called_and_checked(tools: ToolBus) -> None:
    """By the commands that docs/agents.md says."""
    page = (ROOT / "docs/agents.md").read_text(encoding="utf-8")
    program = page.split("```python\n", 1)[1].split("```", 1)[0]
    assert len(program.splitlines()) <= 20
    (tools.folder / "weather.py").write_text(program)
    await tools.create("weather")
    folders = os.pathsep.join([str(tools.folder), tools.variables["PYTHONPATH"]])
    server = tools.serve("serve", "weather:weather", PYTHONPATH=folders)
    await tools.announced("weather")

    called = tools.command("call", "weather.get_weather", '{"city": "Oslo"}', *PATIENCE)
    assert (called.returncode, json.loads(called.stdout)["sky"]) == (0, "clear"), called.stderr
    refused = tools.command("call", "weather.get_weather", '{"city": "Bergen"}', *PATIENCE)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "unknown_city: there is no station in Bergen" in refused.stderr
    topic, sample = f"{tools.prefix}.tools.weather.v1", ("get_weather", '{"city": "Oslo"}')
    checked = tools.command("check", topic, "--json", *PATIENCE, "--call", *sample)
    assert checked.returncode == 0, checked.stdout
    assert {ruling["verdict"] for ruling in json.loads(checked.stdout)} == {"ok"}
    listed = tools.command("list")
    assert "weather.get_weather" in listed.stdout
    assert "The weather in a city, now." in listed.stdout
    unknown = tools.command("call", "nobody.echo")
    assert unknown.returncode == 3
    assert "tools serve" in unknown.stderr

    server.terminate()
    assert server.wait(30) == 0, tools.logs()


async def test_servers_in_java_and_with_faststream_keep_the_rules(tools: ToolBus) -> None:
    command = java()
    await tools.create("jecho", "fecho")
    program = str(ROOT / "examples/tool_server_java/EchoServer.java")
    tools.start(*command, program, tools.bootstrap, tools.prefix)
    tools.start(sys.executable, str(ROOT / "examples/tool_server_faststream/server.py"))
    await tools.announced("jecho", "fecho")

    assert await tools.broken_rules("jecho", *ECHO) == {}
    assert await tools.broken_rules("fecho", *ECHO) == {}


async def test_killed_at_any_time_each_delivery_keeps_its_word(tools: ToolBus) -> None:
    """While all run; before any runs; and when all are answered but perhaps not committed."""
    journal, place = tools.folder / "journal", "tests.integration.journalled_tools:deeds"
    given = {"JOURNAL": str(tools.folder)}
    first = [f"{tool}-{number}" for tool in ("often", "once") for number in range(6)]
    second = [f"{tool}-late-{number}" for tool in ("often", "once") for number in range(6)]

    def calls(names: list[str]) -> list[tuple[str, str, dict[str, str]]]:
        return [(name, name.partition("-")[0], {"name": name}) for name in names]

    await tools.create("deeds")
    killed = tools.serve("serve", place, **given)
    await tools.announced("deeds")
    await tools.publish("deeds", calls(first))
    wait_until(lambda: ran(journal).keys() == set(first), "all run")
    killed.kill()
    await tools.publish("deeds", calls(second))
    (tools.folder / "may-end").touch()
    killed = tools.serve("serve", place, **given)
    again = [name for name in first if name.startswith("often")]
    await tools.results({*again, *second})
    killed.kill()
    tools.serve("serve", place, **given)
    await tools.publish("deeds", calls([f"often-end-{number}" for number in range(40)]))
    results = await tools.results({f"often-end-{number}" for number in range(40)})

    counts = ran(journal)
    assert {count for name, count in counts.items() if name.startswith("once")} == {1}
    assert counts.keys() >= {*first, *second}
    assert all(counts[name] >= 2 for name in again)
    answered = Counter(result["call_id"] for result in results)
    assert {name for name in first if name.startswith("once")} & answered.keys() == set()
    assert {result["outcome"]["kind"] for result in results} == {"ok"}


def ran(journal: Path) -> Counter[str]:
    return Counter(journal.read_text().split() if journal.exists() else ())
