"""Tools that ask people, and calls that go on from what their server kept, over its crashes."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from answerbus.continued_call import ToolQuestion
from answerbus.tools import Toolset
from answerbus.tools.call import ToolCall
from answerbus.tools.core.asking import Ask
from answerbus.tools.core.positions import Position
from answerbus.toolset_card import Delivery
from tests.contracts.tools.channel_in_memory import (
    Broker,
    MemoryChannel,
    Serving,
    call_body,
    cancel_body,
    until,
)

QUESTION = ToolQuestion(question="Where to?", json_schema={"type": "object"})
GIVEN = {"value": {"street": "High Street"}, "by": "ops"}


def continue_body(
    state: str, given: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    call = call_body("c-1", **changes)
    return {"kind": "tool_continue", "call": call, "state": state, "given": given}


class Deeds:
    """A tool that asks before it acts, or keeps its state and waits."""

    def __init__(
        self, *, asks: bool = False, keeps: bool = True, delivery: Delivery = "at_most_once"
    ) -> None:
        self.began: list[tuple[str | None, Any]] = []
        self.cancelled: list[str] = []
        self.may_end = asyncio.Event()
        self.toolset = Toolset("deeds")

        @self.toolset.tool(delivery=delivery)
        async def act(name: str, call: ToolCall) -> Any:
            self.began.append((call.state, call.given and call.given.value))
            if asks and call.given is None:
                return Ask(QUESTION, "round-1")
            if not asks and keeps:
                await call.keep("task-1")
                call.progress("half")
            if not asks:
                await self.may_end.wait()
            return name

    async def cancel(self, state: str) -> None:
        self.cancelled.append(state)

    def serving(self, broker: Broker) -> Serving:
        tools = {
            name: replace(tool, cancel=self.cancel) for name, tool in self.toolset.tools.items()
        }
        serving = Serving(self.toolset, broker)
        serving.server._offered = replace(serving.server._offered, tools=tools)
        return serving

    async def begun(self, broker: Broker) -> Serving:
        """Serves a call that has said or asked something."""
        broker.put(call_body("c-1"))
        serving = self.serving(broker)
        await until(lambda: progress_of(broker))
        return serving


def progress_of(broker: Broker) -> list[dict[str, Any]]:
    return [said for said in broker.answers if said["kind"] == "tool_progress"]


async def test_a_question_ends_a_delivery_and_its_answer_is_another() -> None:
    broker, deeds = Broker(), Deeds(asks=True)
    broker.put(call_body("c-1"))
    first = deeds.serving(broker)
    await until(lambda: progress_of(broker))
    (said,) = progress_of(broker)
    assert (said["state"], said["asks"]["question"]) == ("round-1", "Where to?")
    assert broker.results == []
    await first.stop()

    broker.put(continue_body("round-1", GIVEN))
    second = deeds.serving(broker)
    await until(lambda: broker.results)
    await second.stop()
    assert broker.outcome("c-1") == {"kind": "ok", "value": "c-1"}
    assert deeds.began == [(None, None), ("round-1", GIVEN["value"])]


async def test_an_answer_that_overtakes_the_brokers_word_of_its_question_goes_on() -> None:
    broker, deeds = Broker(), Deeds(asks=True)
    broker.keeps_silent = True
    serving = await deeds.begun(broker)
    broker.put(*2 * [continue_body("round-1", GIVEN)])  # the second is a repeat
    (running,) = serving.server._running.values()
    await until(lambda: running.answer and serving.server.counts["repeated"])
    broker.keeps_silent = False
    await serving.stop_once_answered()

    assert broker.outcome("c-1") == {"kind": "ok", "value": "c-1"}
    assert deeds.began == [(None, None), ("round-1", GIVEN["value"])]
    assert broker.committed.offset == 3


async def test_neither_goes_on_once_its_call_is_cancelled() -> None:
    broker, deeds = Broker(), Deeds(asks=True)
    broker.keeps_silent = True
    serving = await deeds.begun(broker)
    broker.put(continue_body("round-1", GIVEN), cancel_body("c-1"))
    await until(lambda: serving.server.counts["cancelled"])
    broker.keeps_silent = False
    await serving.stop()

    assert (deeds.began, broker.results) == ([(None, None)], [])
    assert broker.committed.offset == 3


async def test_an_answer_is_claimed_first_where_the_tool_runs_at_most_once() -> None:
    broker, deeds = Broker(), Deeds(asks=True)
    broker.refuse_commits = True
    broker.put(continue_body("round-1", GIVEN))
    serving = deeds.serving(broker)
    await until(lambda: serving.server.counts["not_claimed"])
    broker.refuse_commits = False
    await serving.stop()

    assert (deeds.began, broker.results) == ([], [])


async def passed_on_over_a_kill() -> int:
    """How often a tool that runs at most once is given an answer, if its server dies with it."""
    broker, deeds = Broker(), Deeds(keeps=False)
    broker.put(continue_body("task-1", GIVEN))
    first = deeds.serving(broker)
    await until(lambda: deeds.began)
    await first.kill()
    broker.put(call_body("c-2", "no_such_tool"))
    second = deeds.serving(broker)
    await until(lambda: broker.results)
    deeds.may_end.set()
    await second.stop()
    return len(deeds.began)


async def test_an_answer_is_passed_on_once() -> None:
    assert await passed_on_over_a_kill() == 1


async def test_what_goes_on_from_a_state_alone_goes_on_in_the_next_server_too() -> None:
    broker, deeds = Broker(), Deeds()
    broker.put(continue_body("task-1"))
    first = deeds.serving(broker)
    await until(lambda: progress_of(broker))
    await first.kill()
    assert broker.committed.offset == 0

    deeds.may_end.set()
    second = deeds.serving(broker)
    await until(lambda: broker.results)
    await second.stop()
    assert deeds.began == [("task-1", None), ("task-1", None)]
    assert broker.outcome("c-1")["kind"] == "ok"


async def begun_over_a_kill() -> list[tuple[str | None, Any]]:
    """From which states a call is begun that may run twice, if its server dies once it kept one."""
    broker, deeds = Broker(), Deeds(delivery="at_least_once")
    broker.put(call_body("c-1"))
    first = deeds.serving(broker)
    await until(lambda: progress_of(broker))
    broker.put(call_body("c-1"))
    await until(lambda: first.server.counts["repeated"])
    await first.server.claims.commit()
    await first.kill()

    broker.put(continue_body("task-1"))  # its lane, after the tool's time-out
    second = deeds.serving(broker)
    await until(lambda: len(deeds.began) == 2)
    deeds.may_end.set()
    await until(lambda: broker.results)
    await second.stop()
    return deeds.began


async def test_a_call_with_a_kept_state_is_not_begun_again_by_the_next_server() -> None:
    assert await begun_over_a_kill() == [(None, None), ("task-1", None)]


async def test_a_repeat_that_comes_while_its_call_is_claimed_is_done_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, deeds = Broker(), Deeds(delivery="at_least_once")
    commit, may_commit, began = MemoryChannel.commit, asyncio.Event(), asyncio.Event()

    async def slow(channel: MemoryChannel, positions: Mapping[int, Position]) -> None:
        began.set()
        await may_commit.wait()
        await commit(channel, positions)

    broker.put(call_body("c-1"))
    with monkeypatch.context() as patched:
        patched.setattr(MemoryChannel, "commit", slow)
        serving = deeds.serving(broker)
        await began.wait()
        broker.put(call_body("c-1"))
        await until(lambda: serving.server.counts["repeated"])
        may_commit.set()
        await until(lambda: progress_of(broker))
        await serving.server.claims.commit()
    await serving.kill()

    assert broker.committed == Position(2, "")


async def test_a_question_is_asked_also_where_its_call_cannot_be_claimed() -> None:
    broker, deeds = Broker(), Deeds(asks=True, delivery="at_least_once")
    broker.refuse_commits = True
    serving = await deeds.begun(broker)
    broker.refuse_commits = False
    await serving.stop()

    (said,) = progress_of(broker)
    assert said["asks"]["question"] == "Where to?"


async def test_what_goes_on_from_a_state_stays_for_the_next_server_though_it_keeps_another() -> (
    None
):
    broker, deeds = Broker(), Deeds(delivery="at_least_once")
    broker.put(continue_body("task-0"))
    first = deeds.serving(broker)
    await until(lambda: progress_of(broker))
    await first.server.claims.commit()
    await first.kill()
    deeds.may_end.set()
    second = deeds.serving(broker)
    await until(lambda: broker.results)
    await second.stop()

    assert deeds.began == [("task-0", None), ("task-0", None)]


async def test_an_answer_that_came_between_two_servers_goes_on() -> None:
    broker, deeds = Broker(), Deeds(asks=True, delivery="at_least_once")
    broker.keeps_silent = True
    broker.put(call_body("c-1"))
    first = deeds.serving(broker)
    await until(lambda: progress_of(broker))
    await first.kill()
    broker.keeps_silent = False
    broker.put(continue_body("round-1", GIVEN))
    second = deeds.serving(broker)
    await until(lambda: broker.results)
    await second.stop()

    assert deeds.began == [(None, None), ("round-1", GIVEN["value"])]


async def test_a_tool_whose_time_is_over_may_still_keep_a_state() -> None:
    broker, toolset = Broker(), Toolset("deeds")
    ends = asyncio.Event()

    @toolset.tool(timeout_s=0.05)
    async def act(name: str, call: ToolCall) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await call.keep("task-1")
            ends.set()

    broker.put(call_body("c-1"))
    serving = Serving(toolset, broker)
    await until(lambda: broker.results and ends.is_set())
    await serving.stop()

    assert broker.outcome("c-1")["code"] == "timed_out"


async def test_a_state_is_in_each_sign_of_life_after_it_and_counts_once_the_broker_has_it() -> None:
    broker, deeds = Broker(), Deeds()
    broker.down = 1
    broker.put(call_body("c-1"))
    serving = deeds.serving(broker)
    await until(lambda: len(progress_of(broker)) == 2)
    deeds.may_end.set()
    await serving.stop_once_answered()

    assert [(said["state"], said["note"]) for said in progress_of(broker)] == [
        ("task-1", ""),
        ("task-1", "half"),
    ]


async def test_a_cancelled_call_gives_up_what_was_kept_for_it_also_when_nobody_runs_it() -> None:
    broker, deeds = Broker(), Deeds()
    kept = {"tool": "act", "state": "task-1"}
    broker.put(cancel_body("c-9") | kept, cancel_body("c-8"), cancel_body("c-7") | {"tool": "no"})
    serving = deeds.serving(broker)
    await until(lambda: deeds.cancelled)
    await serving.stop()

    assert deeds.cancelled == ["task-1"]
    assert broker.committed.offset == 3


async def test_a_cancelled_call_gives_up_what_its_lane_has_not_heard_of() -> None:
    broker, deeds = Broker(), Deeds()
    serving = await deeds.begun(broker)
    broker.put(cancel_body("c-1"))
    await until(lambda: serving.server.counts["cancelled"])
    await serving.stop()

    assert deeds.cancelled == ["task-1"]


async def test_a_server_that_stops_leaves_the_task_to_the_next_one() -> None:
    broker, deeds = Broker(), Deeds()
    broker.put(call_body("c-1"))
    serving = deeds.serving(broker)
    serving.server._drain_s = 0.01
    await until(lambda: progress_of(broker))
    await serving.stop()

    assert (deeds.cancelled, broker.results) == ([], [])
