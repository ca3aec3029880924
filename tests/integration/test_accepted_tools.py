"""A tool that needs approval and changes is not called until an operator accepts it, for good."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from answerbus.partition import partition_of
from answerbus.topics import ACCEPTED_TOOLS, APPROVALS, STEPS, toolset_cards
from tests.integration.bus import Bus, Worker, until
from tests.integration.command_line import answerbus
from tests.integration.test_runs import CALLS, CARD, Json, ask, prepared, say

pytestmark = pytest.mark.kafka

ECHO, PAY, REFUND = CARD["tools"]
NOTE = "tools accept shop"
CHEAP = {**PAY, "approval": "never", "description": "Pay all."}
CHANGED: Json = {**CARD, "tools": [ECHO, CHEAP, REFUND]}


async def announce(bus: Bus, card: Json) -> None:
    await say(bus, bus.topic(toolset_cards("shop")), card)


async def accept(bus: Bus, *more: str) -> tuple[int, str]:
    done = await answerbus(bus.bootstrap, bus.prefix, "tools", "accept", "shop", *more)
    return done.code, done.out + done.err


async def eventually(true: Callable[[], Awaitable[bool]], limit_s: float = 30.0) -> None:
    async with asyncio.timeout(limit_s):
        while not await true():
            await asyncio.sleep(0.2)


def note_of(worker: Worker) -> bool:
    return NOTE in worker.health["toolsets"].get("shop", "")


async def calls_of_pay(bus: Bus) -> list[Json]:
    return [call for call in await bus.everything(CALLS) if call["tool"] == "pay"]


async def approve(bus: Bus, workflow_id: str) -> None:
    steps = await bus.everything(STEPS)
    (asked,) = [
        e for e in steps if e["kind"] == "approval_requested" and e["workflow_id"] == workflow_id
    ]
    approval = {
        "kind": "approval",
        "decision": "approved",
        "call_id": asked["call_id"],
        "args_digest": asked["args_digest"],
        "workflow_id": workflow_id,
        "by": "ops",
        "reason": "why",
        "at": asked["at"],
    }
    place = partition_of(workflow_id, bus.partitions)
    await say(bus, bus.topic(APPROVALS), approval, place)


async def awaiting_approval(bus: Bus) -> tuple[Path, Worker]:
    """A worker, by these settings, whose run waits for a person."""
    config = await prepared(bus)
    worker = await asyncio.to_thread(bus.start_worker, config)
    await bus.publish([ask("paid", "w-1")])

    async def asked() -> bool:
        return any(e["kind"] == "approval_requested" for e in await bus.everything(STEPS))

    await eventually(asked)
    return config, worker


@pytest.mark.long
async def test_a_changed_tool_waits_for_an_operator_over_restarts(bus: Bus) -> None:
    config, worker = await awaiting_approval(bus)
    assert [e["card"]["name"] for e in await bus.everything(ACCEPTED_TOOLS)] == ["pay"]
    assert (await accept(bus, "--yes"))[0] == 1, "nothing has changed"

    await announce(bus, CHANGED)
    await until(lambda: note_of(worker), "it is told")
    assert any(NOTE in sentence for sentence in worker.health["advice"])
    assert b'answerbus_tools_stopped{toolset="shop"} 1' in worker.get("/metrics")

    worker.kill()
    worker = await asyncio.to_thread(bus.start_worker, config)
    await until(lambda: note_of(worker), "also after a restart")
    await bus.publish([ask("paid", "w-2")])
    (dead_letter,) = await bus.terminals(1)
    assert dead_letter["cause"] == {"kind": "missing_tools", "tools": ["shop.pay"]}
    await approve(bus, "w-1")

    async def approved() -> bool:
        return any(e["kind"] == "control_applied" for e in await bus.everything(STEPS))

    await eventually(approved)
    assert await calls_of_pay(bus) == []

    assert (await accept(bus, "--yes", "--digest", "sha256:" + "0" * 64))[0] == 1
    assert await calls_of_pay(bus) == []
    code, text = await accept(bus, "--yes")
    assert (code, "Pay all." in text, '"never"' in text, "before" in text) == (0, True, True, True)

    async def called() -> bool:
        return len(await calls_of_pay(bus)) == 1

    await eventually(called)
    assert "shop" not in worker.health["toolsets"]
    assert b'answerbus_tools_stopped{toolset="shop"} 0' in worker.get("/metrics")
    records = await bus.everything(ACCEPTED_TOOLS)
    assert [e["card"]["approval"] for e in records] == ["always", "never"]
    assert records[-1]["by"].startswith("unproved:")


@pytest.mark.long
async def test_a_changed_tool_waits_in_a_worker_that_has_no_agents_any_more(bus: Bus) -> None:
    config, worker = await awaiting_approval(bus)
    worker.kill()
    await announce(bus, CHANGED)
    config.write_text(config.read_text().partition("[agents.")[0])
    worker = await asyncio.to_thread(bus.start_worker, config)
    await approve(bus, "w-1")
    await until(lambda: note_of(worker), "the card is read")
    assert await calls_of_pay(bus) == []

    assert (await accept(bus, "--yes"))[0] == 0

    async def called() -> bool:
        return len(await calls_of_pay(bus)) == 1

    await eventually(called)
