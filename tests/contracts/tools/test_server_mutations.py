"""A tool server that is broken on purpose breaks its word: so the tests of it can fail."""

import asyncio
from collections import Counter
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest

from answerbus.tools import Toolset
from answerbus.tools.claims import Claims
from answerbus.tools.core.answered import AnsweredCalls
from answerbus.tools.core.positions import PartitionPositions, Position
from tests.contracts.tools.channel_in_memory import Broker, Serving, call_body, until


async def killed_once(delivery: Any) -> tuple[Counter[str], set[str]]:
    """A slow call and three behind it, killed while all run; then a server that lets them end."""
    broker, ran, may_end = Broker(), Counter[str](), asyncio.Event()
    tools = Toolset("deeds")

    @tools.tool
    async def slow(name: str) -> str:
        await may_end.wait()
        return name

    @tools.tool(delivery=delivery)
    async def act(name: str) -> str:
        ran[name] += 1
        await may_end.wait()
        return name

    calls = ["c-1", "c-2", "c-3"]
    broker.put(call_body("slow", "slow"), *map(call_body, calls))
    serving = Serving(tools, broker)
    await until(lambda: ran.keys() == set(calls))
    await serving.server.claims.commit()
    await serving.kill()
    may_end.set()
    broker.put(call_body("last"))
    serving = Serving(tools, broker)
    await until(lambda: {"slow", "last"} <= {result["call_id"] for result in broker.results})
    await serving.stop()
    return ran, {result["call_id"] for result in broker.results}


def _no_commit_before_running() -> AbstractContextManager[object]:
    async def claim(self: Claims, *_: object) -> None:
        del self

    return mock.patch.object(Claims, "claim", claim)


def _offset_alone() -> AbstractContextManager[object]:
    position: Any = vars(PartitionPositions)["position"]

    def without_text(self: PartitionPositions) -> Position:
        return Position(position.fget(self).offset, "")

    return mock.patch.object(PartitionPositions, "position", property(without_text))


def _done_when_begun() -> AbstractContextManager[object]:
    begin = Claims.begin

    def begin_and_finish(self: Claims, partition: int, offset: int, end: int) -> Any:
        positions = begin(self, partition, offset, end)
        if positions:
            self.finish(positions, offset)
        return positions

    return mock.patch.object(Claims, "begin", begin_and_finish)


async def test_the_scenario_is_sound_for_the_server_as_it_is() -> None:
    ran, answered = await killed_once("at_most_once")
    assert set(ran.values()) == {1}
    assert answered == {"slow", "last"}
    ran, answered = await killed_once("at_least_once")
    assert answered == {"slow", "c-1", "c-2", "c-3", "last"}


@pytest.mark.parametrize("mutation", [_no_commit_before_running, _offset_alone])
async def test_at_most_once_turns_red(mutation: Any) -> None:
    with mutation():
        ran, _ = await killed_once("at_most_once")

    assert ran["c-1"] == 2


async def committed_while_it_runs() -> int:
    """The offset that is committed while the first call has no answer yet."""
    broker, begun = Broker(), asyncio.Event()
    tools = Toolset("deeds")

    @tools.tool
    async def act(name: str) -> str:
        begun.set()
        await asyncio.Event().wait()
        return name

    broker.put(call_body("c-1"))
    serving = Serving(tools, broker)
    await begun.wait()
    await serving.server.claims.commit()
    await serving.kill()
    return broker.committed.offset


async def test_at_least_once_turns_red() -> None:
    """A server that is killed then would have lost the call."""
    assert await committed_while_it_runs() == 0
    with _done_when_begun():
        assert await committed_while_it_runs() == 1


async def test_a_repeated_call_turns_red() -> None:
    broker, ran = Broker(), Counter[str]()
    tools = Toolset("deeds")

    @tools.tool
    async def act(name: str) -> str:
        ran[name] += 1
        return name

    broker.put(call_body("c-1"))
    with mock.patch.object(AnsweredCalls, "find", return_value=None):
        serving = Serving(tools, broker)
        await until(lambda: broker.results)
        broker.put(call_body("c-1", delivery=2))
        await until(lambda: len(broker.results) == 2)
        await serving.stop()

    assert ran == {"c-1": 2}
