"""Requests that a tool asks in the turn of the run that called it, and what ends them."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from answerbus.call_id import call_name
from answerbus.topics import ATTEMPTS, CONTROLS, DEAD_LETTERS, RESULTS
from tests.unit.worker.builders import workflow_of
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.delegating import (
    DelegatingStage,
    check_tree,
    delegate,
    finish,
    wrapped,
)
from tests.unit.worker.lane.run_checks import cause, finished
from tests.unit.worker.lane.run_world import WORKFLOW, RunProvider, RunStage, full_id
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import done, events, final_account, publish, terminals, until

pytestmark = pytest.mark.wide

ONE_CALL = (actions(call()), actions(says("Done.")))
FIRST = "r-1.call.1.0"
Json = dict[str, Any]


class AskingStage(RunStage):
    """A tool that asks a request in its run's turn, and ends when that has ended."""

    def __init__(self, *, waits: bool = True, budget: int = 100, call_s: float = 0.05) -> None:
        self.waits, self.more = waits, Json()
        super().__init__(ONE_CALL, self._ask)
        self.provider: RunProvider
        self.provider.call_s = call_s
        self.budget = {"attempts": budget}

    def _ask(self, event: Json) -> list[tuple[float, Json | None]]:
        name = f"{call_name(event['call_id'])}.asked"
        body = {"agent": None, "parent": event["parent"], **self.more}
        publish(self.broker, name, event["workflow_id"], **body)
        self.names.append(name)
        if self.waits:
            asyncio.get_running_loop().create_task(self._wait_for(name, event))
            return []
        return [(1.0, {"kind": "ok", "value": "asked"})]

    async def _wait_for(self, name: str, event: Json) -> None:
        await until(lambda: name in terminals(self.broker), 600)
        self.answer(event, terminals(self.broker)[name])

    def answer(self, event: Json, value: str) -> None:
        self.tools.answer(event, {"kind": "ok", "value": value})

    async def begin(self, **more: Any) -> None:
        await self.worker.open()
        self.publish("r-1", budget=self.budget, **more)


def ends(stage: RunStage) -> list[str]:
    found = events(stage.broker, RESULTS, DEAD_LETTERS)
    found.sort(key=lambda event: event.get("finished_at") or event["at"])
    return [event["request_id"] for event in found]


@on_virtual_time
async def test_a_tool_asks_in_the_turn_of_its_run_on_its_account() -> None:
    stage = AskingStage()
    await stage.begin()
    stage.publish("next", agent=None)
    await finished(stage)

    assert ends(stage) == ["r-1.call.1.0.asked", "r-1", "next"]
    child, *_ = events(stage.broker, RESULTS)
    place = {"request_id": "r-1", "call_id": full_id("r-1.call.1.0"), "depth": 1}
    assert child["parent"] == place
    assert final_account(stage.broker)["spent"]["attempts"] == 4
    ((header, *_),) = [
        [content for name, content in record.headers if name == "ce_parentid"]
        for record in stage.broker.log(RESULTS).records[:1]
    ]
    assert header == b"r-1"


@on_virtual_time
async def test_a_child_leaves_its_run_one_attempt_whatever_it_says_of_that() -> None:
    stage = AskingStage(budget=2)
    stage.more = {"budget": {"attempts": 50}}
    await stage.begin()
    await finished(stage)

    assert cause(stage, "r-1.call.1.0.asked") == "budget_exhausted"
    assert terminals(stage.broker)["r-1"] == "result"


@pytest.mark.parametrize(
    "parent",
    [
        {"request_id": "r-0", "call_id": "r-0.call.1.0"},
        {"request_id": "r-1", "call_id": full_id("r-1.call.1.7")},
        {"request_id": "plain", "call_id": "plain.call.1.0", "floor": 0, "depth": 1},
    ],
)
@on_virtual_time
async def test_a_parent_that_asks_nothing_is_unknown_and_nothing_is_spent(parent: Json) -> None:
    stage = AskingStage()
    await stage.begin()
    stage.publish("plain", agent=None)
    stage.publish("child", agent=None, parent=parent)
    await finished(stage)

    assert cause(stage, "child") == "unknown_parent"
    assert terminals(stage.broker)["plain"] == "result"
    assert not [event for event in events(stage.broker, ATTEMPTS) if event["request_id"] == "child"]


@on_virtual_time
async def test_a_run_of_another_workflow_asks_no_child() -> None:
    stage = AskingStage(call_s=2.0)
    await stage.begin()
    await until(lambda: len(stage.names) == 2)
    parent = {"request_id": "r-1", "call_id": full_id("r-1.call.1.0")}
    stage.publish("foreign", agent=None, parent=parent, workflow_id=workflow_of(0, 1))
    await finished(stage)

    assert cause(stage, "foreign") == "unknown_parent"


@on_virtual_time
async def test_a_child_whose_call_has_ended_ends_before_its_run_goes_on() -> None:
    stage = AskingStage(waits=False, call_s=2.0)
    await stage.begin()
    await finished(stage)

    assert ends(stage) == ["r-1.call.1.0.asked", "r-1"]
    assert cause(stage, "r-1.call.1.0.asked") == "cancelled"


@pytest.mark.parametrize("scope", ["request", "workflow"])
@on_virtual_time
async def test_a_cancelled_run_takes_its_children_along_and_ends_last(scope: str) -> None:
    stage = AskingStage(call_s=2.0)
    await stage.begin()
    await until(lambda: len(stage.provider.calls) == 2)
    body = {"kind": "cancel", "scope": scope}
    stage.control(body | ({"request_id": "r-1"} if scope == "request" else {}))
    await finished(stage)

    assert ends(stage) == ["r-1.call.1.0.asked", "r-1"]
    assert cause(stage, "r-1") == cause(stage, "r-1.call.1.0.asked") == "cancelled"
    assert len(stage.provider.calls) == 2


@on_virtual_time
async def test_a_cancelled_workflow_takes_along_what_its_runs_asked_since() -> None:
    """A worker may hear of a cancellation later than of requests that were published after it."""
    stage = AskingStage(call_s=2.0)
    stage.more = {"agent": {"name": "support"}}
    await stage.begin()
    cancelled_at = stage.broker.clock.now() + timedelta(seconds=1)
    await until(lambda: len(stage.provider.calls) == 2)
    cancel = {"kind": "cancel", "scope": "workflow", "by": "ops@acme", "reason": "why"}
    cancel |= {"workflow_id": WORKFLOW, "at": "2026-11-21T10:00:00Z"}
    controls = stage.broker.log(CONTROLS)
    controls.append(b"key", json.dumps(cancel).encode(), (), cancelled_at)
    await finished(stage)

    (applied,) = stage.steps("control_applied")
    assert applied["requests"] == ["r-1", "r-1.call.1.0.asked"]
    assert cause(stage, "r-1") == cause(stage, "r-1.call.1.0.asked") == "cancelled"
    assert len(stage.provider.calls) == 2


@on_virtual_time
async def test_what_is_asked_for_a_cancelled_run_ends_with_it() -> None:
    stage = AskingStage(call_s=2.0)
    await stage.begin()
    await until(lambda: len(stage.provider.calls) == 2)
    stage.cancel("r-1")
    parent = {"request_id": "r-1", "call_id": full_id("r-1.call.1.0")}
    await asyncio.sleep(0.5)
    stage.publish("late", agent=None, parent=parent)
    await finished(stage)

    assert cause(stage, "late") == "cancelled"
    assert ends(stage)[-1] == "r-1"


@on_virtual_time
async def test_the_deadline_ends_children_before_their_run() -> None:
    stage = AskingStage(call_s=8.0)
    await stage.begin(ttl_s=12)
    await finished(stage)

    assert ends(stage) == ["r-1.call.1.0.asked", "r-1"]
    assert cause(stage, "r-1") == "deadline_passed"


@pytest.mark.parametrize("kills", [1, 2])
def test_a_killed_worker_loses_no_child(kills: int) -> None:
    async def history(after_s: float) -> None:
        stage = AskingStage(call_s=0.1)
        await stage.begin()
        await stage.crash_often(kills, after_s)
        await finished(stage)
        child, last = ends(stage)
        assert (child.rpartition(".")[2], last) == ("asked", "r-1")
        assert set(terminals(stage.broker).values()) == {"result"}

    for number in range(0, 60, 3 * kills):
        run(history(0.017 * number))


@on_virtual_time
async def test_a_tree_is_at_most_four_deep() -> None:
    """A tool that asks the agent that calls it, for ever."""
    stage = AskingStage()
    stage.more = {"agent": {"name": "support"}}
    await stage.begin()
    await until(lambda: done(stage.broker, ["r-1"]), 900)
    await finished(stage)

    causes = [event["cause"]["kind"] for event in events(stage.broker, DEAD_LETTERS)]
    assert causes == ["unknown_parent"]
    depths = [event["parent"]["depth"] for event in events(stage.broker, RESULTS)[:-1]]
    assert sorted(depths) == [1, 2, 3, 4]


@on_virtual_time
async def test_a_successor_ends_a_child_whose_call_had_ended_before_its_run_goes_on() -> None:
    """The predecessor dies between the end of the call and that of the child, which is a run."""
    asked = f"{FIRST}.asked"

    def tool(event: Json) -> list[tuple[float, Json | None]]:
        body = {"agent": {"name": "support"}, "parent": event["parent"]}
        publish(stage.broker, asked, event["workflow_id"], **body)
        return [(1.0, {"kind": "ok", "value": "asked"})]

    stage = await DelegatingStage.opened(
        "r-1", steps=ONE_CALL, answers={asked: [actions(call("orders.pay"))]}, tooling=tool
    )
    await until(lambda: FIRST in stage.ended())
    await stage.crash()
    assert terminals(stage.broker) == {}
    stage.worker.assign(0)
    await until(lambda: done(stage.broker, ["r-1"]), 600)
    await stage.end()

    assert cause(stage, asked) == "cancelled"
    assert ends(stage) == [asked, "r-1"]
    found = {one["request_id"]: one for one in events(stage.broker, RESULTS, DEAD_LETTERS)}
    last = events(stage.broker, ATTEMPTS)[-1]
    assert last["request_id"] == "r-1"
    assert last["started_at"] >= found[asked]["at"], "the run waits for its child"


class AskedFor(DelegatingStage):
    """A planner whose one specialist has a part of the budget, and tools that ask requests."""

    def __init__(self, calls: int) -> None:
        first = actions(delegate("a", agent="support"), delegate("b"))
        made = actions(*(call(order_id=str(number)) for number in range(calls)))
        super().__init__(
            (first, actions(says("Joined."))),
            {FIRST: (made, finish(wrapped()))},
            self._ask,
            agent={"parallel_max": 1},
            split="equal",
        )

    def _ask(self, event: Json) -> list[tuple[float, Json | None]]:
        name = f"{call_name(event['call_id'])}.asked"
        publish(self.broker, name, event["workflow_id"], agent=None, parent=event["parent"])
        self.names.append(name)
        asyncio.get_running_loop().create_task(self._wait_for(name, event))
        return []

    async def _wait_for(self, name: str, event: Json) -> None:
        await until(lambda: name in terminals(self.broker), 600)
        self.tools.answer(event, {"kind": "ok", "value": terminals(self.broker)[name]})


@pytest.mark.parametrize("crashes", [False, True])
@on_virtual_time
async def test_what_children_of_tools_spent_is_part_of_the_cap_above_them(*, crashes: bool) -> None:
    stage = AskedFor(calls=5)
    await stage.worker.open()
    stage.publish("r-1", budget={"attempts": 9})
    if crashes:
        await until(lambda: f"{FIRST}.call.1.1.asked" in terminals(stage.broker))
        await stage.crash()
        stage.worker.assign(0)
    await until(lambda: done(stage.broker, ["r-1"]), 900)
    await stage.end()

    check_tree(stage)
    assert [asked_call["cap"] for asked_call in stage.asked_calls()[:2]] == [4, 3]
    asked = [name for name in terminals(stage.broker) if name.endswith(".asked")]
    kinds = [terminals(stage.broker)[name] for name in sorted(asked)]
    assert kinds == ["result"] * 2 + ["dead_letter"] * 3, "one attempt is left to their run"
    (specialist,) = [outcome for outcome in stage.outcomes() if outcome["request_id"] == FIRST]
    assert specialist["kind"] == "result"
    assert specialist["run"]["children"] == 5


@on_virtual_time
async def test_what_a_child_spent_whose_call_had_ended_is_counted_too() -> None:
    stage = AskingStage(waits=False, call_s=2.0)
    await stage.begin()
    await finished(stage)

    (result,) = [event for event in events(stage.broker, RESULTS) if event["request_id"] == "r-1"]
    assert result["run"]["children"] == 1
    used = [event["usage"]["input_tokens"] for event in events(stage.broker, ATTEMPTS)]
    assert len(used) == 3
    assert result["run"]["usage"]["input_tokens"] == sum(used)
