"""A run that died is replayed on a real Kafka: killed and repeated, it goes on, once."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from answerbus.topics import REQUESTS, RESULTS, STEPS
from tests.integration.bus import Bus
from tests.integration.command_line import Ended, answerbus, start
from tests.integration.test_runs import ask, calls, prepared, says, tool_server

pytestmark = pytest.mark.kafka

STEPS_OF_ALL = 10
DIED_AT = 7
REPEATS = 3
RULES: list[dict[str, Any]] = [
    {"when": {"contains": f'"value": "{n}"'}, "reply": calls("echo", phrase=str(n + 1))}
    for n in range(STEPS_OF_ALL - 1, 0, -1)
]
RULES.insert(0, {"when": {"contains": f'"value": "{STEPS_OF_ALL}"'}, "reply": says("All is said.")})
RULES.append({"reply": calls("echo", phrase="1")})
RUN = ("replay", "run", "--budget", "20", "--yes", "--by", "ops")


class CommandLine:
    """`answerbus` on a test's own topics."""

    def __init__(self, bus: Bus, config: str) -> None:
        self._bus, self._config = bus, config

    async def __call__(self, *arguments: str) -> Ended:
        bus = self._bus
        return await answerbus(bus.bootstrap, bus.prefix, *arguments, "--config", self._config)

    async def killed(self, isolation: str) -> None:
        """A replay that is killed once a reader sees its request, or when it has ended."""
        bus = self._bus
        process = await start(bus.bootstrap, bus.prefix, *RUN, "--config", self._config)
        seen = 0
        async with asyncio.timeout(60), bus.reader([bus.topic(REQUESTS)], isolation) as reader:
            while seen < 2 and process.returncode is None:
                seen += sum(map(len, (await reader.getmany(timeout_ms=20)).values()))
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.mark.long
async def test_a_run_that_died_at_its_seventh_step_goes_on_there_once(bus: Bus) -> None:
    config = await prepared(bus, RULES)
    answerbus_ = CommandLine(bus, str(config))
    ran: list[str] = []
    may_answer = asyncio.Event()
    may_answer.set()
    async with tool_server(bus, ran, may_answer):
        bus.start_worker(config)
        await bus.publish([ask("r-1", "w-1", budget={"attempts": DIED_AT})])
        (dead_letter,) = await bus.terminals(1)
        assert dead_letter["cause"]["kind"] == "budget_exhausted"
        assert dead_letter["run"]["steps"] == DIED_AT - 1

        dry = await answerbus_("replay", "dry-run", "--budget", "20", "--json")
        (foreseen,) = json.loads(dry.out)["runs"]
        assert foreseen["goes_on_at_step"] == DIED_AT
        assert foreseen["effects"] == [], "it is a tool that may be called again"
        for isolation in ("read_uncommitted", "read_uncommitted", "read_committed"):
            await answerbus_.killed(isolation)
        for _ in range(REPEATS):
            await answerbus_(*RUN)
        outcomes = await bus.terminals(2)
        await bus.settled()
        (replayed,) = [one for one in await bus.everything(REQUESTS) if one["request_id"] != "r-1"]
        await bus.publish([{**replayed, "request_id": "forged", "workflow_id": "w-1"}])
        *_, forged = await bus.terminals(3)
        again = await answerbus_("replay", "run", "--id", "forged.dead-letter", "--json", *RUN[2:])

    assert (forged["request_id"], forged["cause"]["kind"]) == ("forged", "unverified_steps")
    assert "no operator has sent the steps" in again.out, again
    (result,) = [event for event in outcomes if event["kind"] == "result"]
    assert (result["request_id"], result["answer"]) == ("r-1.replay.1", "All is said.")
    await bus.settled()
    assert len(await bus.everything(REQUESTS)) == 3, "one new run, and the forged one"
    assert len(await bus.everything(RESULTS)) == 1
    assert len(ran) == len(set(ran)) == STEPS_OF_ALL, "no tool was called again"
    asked = [call["request_id"] for call in bus.calls()]
    assert (asked.count("r-1"), asked.count("r-1.replay.1")) == (DIED_AT, 5), "nothing paid again"
    own = [event for event in await bus.everything(STEPS) if event["kind"] == "step"]
    assert [step["n"] for step in own] == list(range(1, STEPS_OF_ALL + 1))
    assert "forged" not in asked
    verified = await answerbus_("audit", "verify")
    (found,) = [line for line in verified.out.splitlines() if "replayed" in line]
    assert "names forged" in found, verified
