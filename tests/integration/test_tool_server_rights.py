"""A tool server whose right to write results goes and comes back: what a tool gave is kept."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from answerbus.tools.echo import echo
from answerbus.tools.server import ToolServer
from answerbus.topics import TOOL_RESULTS
from services.command_line import bus_of
from services.kafka.held_rights import held_rights, resource_names
from services.kafka.planning.rights import Right, rights_of
from services.settings.settings import KafkaSettings, load
from services.tools.serving import serve_checked
from tests.integration.bus import Bus, until
from tests.integration.granting import Granting
from tests.integration.rights import PASSWORD, PASSWORD_ENV
from tests.integration.secured import Secured
from tests.integration.tool_servers import ToolBus

pytestmark = [pytest.mark.kafka, pytest.mark.long]

LIMIT_S = 90.0
REFUSED = "an answer is not taken by the broker"


async def in_force(kafka: KafkaSettings, rows: Sequence[Right], *, held: bool) -> None:
    """Wait until the broker goes by what was granted, or taken back, a moment ago."""
    async with asyncio.timeout(LIMIT_S):
        while set((await held_rights(bus_of(kafka), rows)).values()) != {held}:
            pass


async def test_a_result_waits_for_the_right_to_write_it(
    secured: Secured,
    make_prefix: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    bus = Bus(secured.plain, make_prefix(), 2, tmp_path, kafka=secured.settings("SASL_PLAINTEXT"))
    kafka = load(bus.config([]), {}).kafka
    tools = ToolBus(secured.plain, bus.prefix, tmp_path)
    await tools.create("echo")
    rows = rights_of("tools", resource_names(kafka, "", "echo"))
    (writing,) = [row for row in rows if row.name == bus.topic(TOOL_RESULTS) and row.needed]
    granting, ready = Granting(secured, "tools"), list[ToolServer]()
    granting.grant(rows)
    await in_force(kafka, [row for row in rows if row.needed], held=True)
    serving = asyncio.create_task(serve_checked(kafka, echo, on_ready=ready.append))
    try:
        await until(lambda: bool(ready) or serving.done(), "it serves", LIMIT_S)
        granting.take_back(writing)
        await in_force(kafka, [writing], held=False)
        await tools.publish("echo", [("c-1", "echo", {"phrase": "still here"})])
        await until(lambda: REFUSED in caplog.text, "the result is refused", LIMIT_S)
        assert not ready[0].counts
        granting.grant([writing])
        (result,) = await tools.results({"c-1"})
    finally:
        granting.clear(rows)
        for server in ready:
            server.stop()
        await serving

    assert result["outcome"]["kind"] == "ok"
    assert "still here" in str(result["outcome"])
    assert ready[0].counts == {"ok": 1}
