"""A partition and its results topic in memory, with what a group has committed."""

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from answerbus.tools.channel import Answer, ChannelUnavailable, ClaimLost, Received, ReplyRefused
from answerbus.tools.core.intake import Offered
from answerbus.tools.core.positions import Position
from answerbus.tools.server import ToolServer
from answerbus.tools.toolset import Toolset

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
RESULTS = "answerbus.tool-results.v1"
TOKEN = base64.b64encode(bytes(16)).decode()
LIMIT_S = 30.0


def call_body(call_id: str, tool: str = "act", **changes: Any) -> dict[str, Any]:
    """A call of the toolset `deeds`."""
    return {
        "kind": "tool_call",
        "call_id": call_id,
        "request_id": "r-1",
        "workflow_id": "w-1",
        "toolset": "deeds",
        "tool": tool,
        "args": {"name": call_id},
        "args_digest": "sha256:" + "0" * 64,
        "expires_at": (NOW + timedelta(seconds=30)).isoformat(),
        "reply": {"topic": RESULTS, "partition": 3, "key": "w-1", "token": TOKEN},
        "parent": {"request_id": "r-1", "call_id": call_id},
        "at": NOW.isoformat(),
        **changes,
    }


def cancel_body(call_id: str) -> dict[str, Any]:
    return {
        "kind": "tool_cancel",
        "call_id": call_id,
        "request_id": "r-1",
        "workflow_id": "w-1",
        "toolset": "deeds",
        "at": NOW.isoformat(),
    }


class Broker:
    """What survives servers: the records, the committed position, the answers."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.headers: Sequence[tuple[str, bytes | None]] = ()  # of each record
        self.committed = Position(0, "")
        self.answers: list[dict[str, Any]] = []
        self.refuse_commits = False
        self.down = 0  # answers that are not taken yet
        self.keeps_silent = False  # it takes answers, and does not say so

    def put(self, *bodies: dict[str, Any] | bytes) -> None:
        for body in bodies:
            self.records.append(body if isinstance(body, bytes) else json.dumps(body).encode())

    @property
    def results(self) -> list[dict[str, Any]]:
        return [answer for answer in self.answers if answer["kind"] == "tool_result"]

    def outcome(self, call_id: str) -> dict[str, Any]:
        """The one answer of a call."""
        found = [result["outcome"] for result in self.results if result["call_id"] == call_id]
        (only,) = found
        return dict(only)


class MemoryChannel:
    """The channel of one server; a killed one reaches nothing any more."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._at = broker.committed.offset
        self.is_killed = False

    def seek(self, offset: int) -> None:
        """Read from there on, as after a rebalance."""
        self._at = offset

    async def receive(self, limit: int) -> Sequence[Received]:
        await asyncio.sleep(0.001)
        found = [
            Received(0, offset, offset + 1, self._broker.records[offset], self._broker.headers)
            for offset in range(self._at, len(self._broker.records))[:limit]
        ]
        self._at += len(found)
        return found

    async def commit(self, positions: Mapping[int, Position]) -> None:
        await asyncio.sleep(0)
        if self.is_killed or self._broker.refuse_commits:
            raise ClaimLost("the partition is another server's")
        self._broker.committed = positions[0]

    async def answer(self, answer: Answer) -> None:
        await asyncio.sleep(0)
        if self.is_killed:
            await asyncio.Event().wait()
        if answer.partition > 11:
            raise ReplyRefused("no such partition")
        if self._broker.down:
            self._broker.down -= 1
            raise ChannelUnavailable("no leader")
        self._broker.answers.append(
            {**json.loads(answer.value), "_at": (answer.partition, answer.key.decode())}
        )
        while self._broker.keeps_silent:
            await asyncio.sleep(0.001)


class Serving:
    """A server that runs, in a test."""

    def __init__(self, toolset: Toolset, broker: Broker, **options: Any) -> None:
        self.broker, self.channel = broker, MemoryChannel(broker)
        offered = Offered(toolset.name, toolset.tools, RESULTS)
        self.server = ToolServer(offered, self.channel, lambda: NOW, name="here", **options)
        self.server.claims.assigned({0: broker.committed})
        self.task = asyncio.create_task(self.server.run())

    async def stop(self) -> None:
        self.server.stop()
        await asyncio.wait_for(self.task, LIMIT_S)

    async def stop_once_answered(self) -> None:
        await until(lambda: self.broker.results)
        await self.stop()

    async def kill(self) -> None:
        """Nothing of it reaches the broker from now on."""
        self.channel.is_killed = True
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=LIMIT_S)


async def until(is_true: Any) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(LIMIT_S):
        while not is_true():
            await asyncio.sleep(0.002)
