"""Runs in a lane: their steps, tools, people and ends, and what a crash at any moment leaves."""

import asyncio
import json
from typing import Any
from unittest import mock

import pytest

from answerbus.limits import CALL_FAILURES_MAX
from answerbus.topics import (
    APPROVALS,
    ATTEMPTS,
    CONTROLS,
    LEDGER,
    RESULTS,
    RUNS,
    STEPS,
    TOOL_RESULTS,
)
from services.text.digest import canonical_digest
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run import transitions
from services.worker.core.run.agents import Agents
from services.worker.planning.planner import BackendChange
from tests.unit.worker.builders import workflow_of
from tests.unit.worker.core.run_builders import actions, call, says, thinks
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.run_checks import breaks, cause, finished
from tests.unit.worker.lane.run_world import TWO_STEPS, WORKFLOW, RunStage, say
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import done, events, final_account, terminals, until

pytestmark = pytest.mark.wide

AT_ONCE_S = 5.0
TIMEOUT_S = 30.0  # of a call, by default
PAYS = (actions(call("orders.pay", order_id="1")), actions(says("Paid.")))


@on_virtual_time
async def test_a_run_takes_steps_calls_tools_and_ends_with_one_result() -> None:
    stage = await RunStage.opened("r-1")
    await finished(stage)

    (result,) = events(stage.broker, RESULTS)
    assert result["answer"] == "All is well."
    assert result["schema"]["kind"] == "text"
    assert (result["run"]["steps"], result["run"]["tool_calls"]) == (2, 3)
    assert [step["n"] for step in stage.steps("step")] == [1, 2]
    assert sorted(stage.tools.ran) == [f"r-1.call.{it}/1" for it in ("1.0", "1.1", "2.0")]
    assert final_account(stage.broker)["spent"]["attempts"] == 3
    assert final_account(stage.broker)["limit"]["attempts"] == 1_000


@on_virtual_time
async def test_the_audit_of_operators_reads_the_chain_as_the_worker_wrote_it() -> None:
    """Also of values that are written in more than one way."""
    value = {"ü": 1.0, "n": 2**70, "z": -0.0, "e": 1e-9, "big": 1e21, "t": "\u2028\x00"}

    stage = await RunStage.opened("r-1", tooling=lambda _: [(0.02, {"kind": "ok", "value": value})])
    await finished(stage)

    records = stage.broker.log(STEPS).records
    for number in range(len(records)):
        rest = records[:number] + records[number + 1 :]
        stage.broker.log(STEPS).records = rest
        assert breaks(stage), f"without {records[number].value!r}"


@on_virtual_time
async def test_runs_of_a_workflow_take_turns_and_others_go_on_meanwhile() -> None:
    stage = await RunStage.opened("r-1", "r-2")
    stage.publish("r-3", policy={"ordering": "none"})
    await finished(stage)

    order = [event["request_id"] for event in events(stage.broker, RESULTS)]
    assert order.index("r-1") < order.index("r-2")


@pytest.mark.parametrize("kills", [1, 2])
def test_a_worker_that_is_killed_at_any_moment_repeats_no_finished_step(kills: int) -> None:
    """From the first record to the end; the simulation looks more closely."""

    async def history(after_s: float) -> None:
        stage = await RunStage.opened("r-1", "r-2")
        await stage.crash_often(kills, after_s)
        await finished(stage)
        lost = [a for a in events(stage.broker, ATTEMPTS) if a["outcome"] == "unknown"]
        assert sum(stage.provider.asked_of.values()) <= 6 + len(lost)
        assert len(events(stage.broker, RESULTS)) == 2
        assert len(stage.steps("step")) == 4

    for number in range(0, 90, 4 * kills):
        run(history(0.013 * number))


@pytest.mark.parametrize("fault", list(Fault))
def test_a_commit_that_fails_in_any_way_loses_and_doubles_nothing(fault: Fault) -> None:
    async def history(place: int) -> None:
        stage = RunStage()
        await stage.worker.open()
        stage.broker.faults.extend([None] * place + [fault])
        stage.publish("r-1", "r-2")
        await finished(stage)
        assert len(events(stage.broker, RESULTS)) == 2
        assert len(stage.steps("step")) == 4

    for place in range(0, 18, 3):
        run(history(place))


@on_virtual_time
async def test_a_tool_that_is_silent_is_called_again_and_then_timed_out() -> None:
    stage = await RunStage.opened(
        "r-1", steps=(actions(call()), actions(says("No answer."))), tooling=lambda _: []
    )
    await finished(stage)

    assert sorted(stage.tools.ran) == [f"r-1.call.1.0/{n}" for n in (1, 2, 3)]
    (ended,) = stage.steps("tool_ended")
    assert ended["outcome"] == {"kind": "timed_out", "after_s": 30.0, "ran": "unknown"}
    assert terminals(stage.broker) == {"r-1": "result"}


@on_virtual_time
async def test_a_result_at_which_the_worker_fails_stops_neither_its_lane_nor_others() -> None:
    """A bug of ours: the record is passed by, and its call ends as if nothing had been said."""
    came = transitions.on_result

    def faulty(of: Any, result: Any, inputs: Any) -> Any:
        if result.call_id.startswith("r-1."):
            raise ValueError("a bug")
        return came(of, result, inputs)

    stage = RunStage((actions(call()), actions(says("Well."))))
    await stage.worker.open()
    with mock.patch.object(transitions, "on_result", faulty):
        stage.publish("r-1")
        stage.publish("r-2", workflow_id=workflow_of(0, 1))
        await finished(stage)

    ended = {step["request_id"]: step["outcome"]["kind"] for step in stage.steps("tool_ended")}
    assert ended == {"r-1": "timed_out", "r-2": "ok"}


@pytest.mark.parametrize("away_s", [12.0, 300.0])
@on_virtual_time
async def test_a_toolset_whose_topic_is_away_stops_no_lane(away_s: float) -> None:
    """It costs the lane an opening at each try, and the run no more than the time of its call."""
    stage = RunStage((actions(call()), actions(says("Well."))))
    await stage.worker.open()
    stage.broker.unwritable.add("orders")
    stage.publish("r-1")
    await until(lambda: len(stage.worker.shards) > 1)
    began = asyncio.get_running_loop().time()
    stage.publish("plain", workflow_id=workflow_of(0, 1), agent=None)
    await until(lambda: done(stage.broker, ["plain"]), AT_ONCE_S)
    await asyncio.sleep(away_s - asyncio.get_running_loop().time() + began)
    stage.broker.unwritable.clear()
    await finished(stage)

    (ended,) = stage.steps("tool_ended")
    kind = {"kind": "ok", "value": "done"}
    never = {"kind": "timed_out", "after_s": 30.0, "ran": "no"}
    assert ended["outcome"] == (kind if away_s < TIMEOUT_S else never)
    assert len(stage.tools.ran) == (1 if away_s < TIMEOUT_S else 0)
    assert len(stage.worker.shards) < 5
    assert terminals(stage.broker) == {"r-1": "result", "plain": "result"}


@on_virtual_time
async def test_the_time_of_a_call_is_over_also_after_a_restart() -> None:
    stage = await RunStage.opened(
        "r-1", steps=(actions(call()), actions(says("Well."))), tooling=lambda _: []
    )
    await until(lambda: stage.tools.ran != [])
    await stage.crash()
    await asyncio.sleep(100)
    await stage.worker.open()
    await finished(stage)


@on_virtual_time
async def test_what_is_late_double_forged_or_no_event_is_dropped_and_counted() -> None:
    def tooling(event: dict[str, Any]) -> list[tuple[float, dict[str, Any] | None]]:
        ok = {"kind": "ok", "value": "done"}
        return [(0.01, ok), (0.02, ok), (5.0, ok)]

    stage = await RunStage.opened("r-1", tooling=tooling)
    await until(lambda: stage.tools.ran != [])
    (made, *_) = stage.calls()
    stage.tools.answer(made, {"kind": "ok", "value": "forged"}, token="A" * 22 + "==")
    stage.tools.answer(made, {"kind": "ok", "value": "forged"}, workflow_id="another")
    say(stage.broker, TOOL_RESULTS, b"{")
    say(stage.broker, TOOL_RESULTS, {"kind": "tool_result"})
    say(stage.broker, TOOL_RESULTS, made)
    await until(lambda: done(stage.broker, stage.names))
    await asyncio.sleep(10)
    assert stage.worker.context.counters.ignored_signals >= 5 + 2 * 3
    await finished(stage)
    assert all(step["outcome"]["value"] == "done" for step in stage.steps("tool_ended"))


@on_virtual_time
async def test_an_application_approves_no_call_and_the_topic_of_approvals_cancels_none() -> None:
    stage = await RunStage.opened("r-1", steps=PAYS)
    await until(lambda: stage.steps("approval_requested") != [])
    (asked,) = stage.steps("approval_requested")
    approval = {key: asked[key] for key in ("call_id", "args_digest")}
    stage.control({**approval, "kind": "approval", "decision": "approved"}, CONTROLS)
    cancel = {"kind": "cancel", "scope": "request", "request_id": "r-1"}
    stage.control(cancel, APPROVALS)
    await until(lambda: len(stage.steps("control_applied")) == 2)
    await asyncio.sleep(5)
    applied = stage.steps("control_applied")
    assert [(one["effect"], one["is_misplaced"]) for one in applied] == [("nothing", True)] * 2
    assert stage.calls() == []
    assert stage.worker.context.counters.ignored_signals == 2
    stage.cancel("r-1")
    await finished(stage)


@on_virtual_time
async def test_a_call_waits_for_a_person_and_runs_once_it_is_approved() -> None:
    stage = await RunStage.opened("r-1", steps=PAYS)
    await until(lambda: stage.steps("approval_requested") != [])
    await asyncio.sleep(5)
    assert stage.tools.ran == []
    (asked,) = stage.steps("approval_requested")
    approval = {key: asked[key] for key in ("call_id", "args_digest")}
    approval |= {"kind": "approval", "decision": "approved"}
    stage.control({**approval, "args_digest": "sha256:" + "0" * 64})
    await stage.crash()
    await stage.worker.open()
    stage.control(approval)
    stage.control(approval)
    await finished(stage)

    effects = [step["effect"] for step in stage.steps("control_applied")]
    assert effects == ["nothing", "approved", "nothing"]
    assert stage.tools.ran == ["r-1.call.1.0/1"]
    assert terminals(stage.broker) == {"r-1": "result"}


@on_virtual_time
async def test_changed_arguments_outlive_a_crash_and_are_in_the_chain_of_the_run() -> None:
    stage = await RunStage.opened("r-1", steps=PAYS, tooling=lambda _: [])
    await until(lambda: stage.steps("approval_requested") != [])
    (asked,) = stage.steps("approval_requested")
    approval = {"kind": "approval", "decision": "approved", "call_id": asked["call_id"]}
    for order_id in ("none", "2"):
        args: JsonObject = {"order_id": order_id}
        digests = {"args_digest": canonical_digest(args), "asked_digest": asked["args_digest"]}
        stage.control({**approval, **digests, "args": args})
    await until(lambda: len(stage.calls()) == 1)
    await stage.crash()
    await stage.worker.open()
    await finished(stage)

    assert [made["args"] for made in stage.calls()] == [{"order_id": "2"}]
    applied = stage.steps("control_applied")
    assert [one["effect"] for one in applied] == ["invalid", "approved"]
    assert [problem["path"] for problem in applied[0]["problems"]] == ["/order_id"]
    (ended,) = stage.steps("tool_ended")
    assert ended["edited"]["args"] == {"order_id": "2"}
    assert not breaks(stage)


@on_virtual_time
async def test_a_denied_call_is_shown_to_the_model_and_never_runs() -> None:
    stage = await RunStage.opened("r-1", steps=PAYS)
    await until(lambda: stage.steps("approval_requested") != [])
    (asked,) = stage.steps("approval_requested")
    denial = {key: asked[key] for key in ("call_id", "args_digest")}
    stage.control({**denial, "kind": "approval", "decision": "denied"})
    await finished(stage)

    assert stage.tools.ran == []
    (ended,) = stage.steps("tool_ended")
    assert ended["outcome"] == {"kind": "denied", "by": "ops@acme", "reason": "why"}


@on_virtual_time
async def test_the_deadline_ends_a_run_that_waits_for_its_tools() -> None:
    stage = await RunStage.opened("r-1", steps=PAYS, asked={"ttl_s": 60})
    await finished(stage)

    assert cause(stage, "r-1") == "deadline_passed"
    assert [step["outcome"]["kind"] for step in stage.steps("tool_ended")] == ["expired"]


def test_a_model_that_goes_on_calling_failing_tools_ends_also_over_crashes() -> None:
    """It takes turns, so that no step repeats the one before; the counts survive its worker."""

    async def history(kill_after_s: float) -> None:
        turns = [actions(call(order_id="1")), actions(call(order_id="2"))] * 20
        down = {"kind": "error", "code": "down", "message": "again"}
        stage = RunStage(turns, lambda _: [(0.02, down)], agent={"steps_max": 40})
        await stage.worker.open()
        stage.publish("r-1", budget={"attempts": 40})
        await asyncio.sleep(kill_after_s)
        await stage.crash()
        stage.worker.assign(0)
        await finished(stage)

        made = [ran.partition(".call.")[2] for ran in stage.tools.ran]
        lost = [a for a in events(stage.broker, ATTEMPTS) if a["outcome"] == "unknown"]
        assert len(made) == 2 * CALL_FAILURES_MAX
        assert len(stage.steps("step")) == 2 * CALL_FAILURES_MAX + 1
        assert stage.steps("tool_ended")[-1]["outcome"] == {"kind": "not_run", "which": "repeats"}
        assert cause(stage, "r-1") == "repeats_itself"
        prompts = [prompt.digest for prompt in stage.provider.prompts]
        assert len(prompts) - len(set(prompts)) <= len(lost)

    for number in range(8):
        run(history(0.21 * number))


@on_virtual_time
async def test_a_model_that_never_ends_must_finish_in_its_last_step() -> None:
    forever = (actions(call()),)
    stage = await RunStage.opened(
        "r-1", steps=forever, agent={"steps_max": 3}, asked={"budget": {"attempts": 20}}
    )
    await finished(stage)

    assert len(stage.steps("step")) == 2
    assert cause(stage, "r-1") == "repeats_itself"
    assert len(stage.provider.calls) == 6
    assert "orders.get" not in stage.provider.prompts[-1].system
    assert len({prompt.digest for prompt in stage.provider.prompts}) == 6


@on_virtual_time
async def test_a_model_that_only_thinks_is_asked_again_and_no_thought_is_shown_or_published() -> (
    None
):
    thinking = (actions(thinks("CANARY")),)
    stage = await RunStage.opened(
        "r-1",
        steps=(actions(thinks("CANARY"), call()), *thinking),
        asked={"budget": {"attempts": 3}},
    )
    await finished(stage)

    attempts = events(stage.broker, ATTEMPTS)
    assert [attempt["outcome"] for attempt in attempts] == ["step", "retry", "dead_letter"]
    assert attempts[0]["rationale"] == "CANARY"
    texts = [turn.text for prompt in stage.provider.prompts for turn in prompt.turns]
    for topic in (STEPS, RUNS, RESULTS, LEDGER):
        assert "CANARY" not in str(events(stage.broker, topic))
    assert "CANARY" not in "".join(texts[:3])


@on_virtual_time
async def test_the_last_attempt_of_an_account_cannot_call_tools() -> None:
    stage = await RunStage.opened("r-1", asked={"budget": {"attempts": 1}})
    await finished(stage)

    assert "orders.get" not in stage.provider.prompts[0].system
    assert stage.calls() == []


@on_virtual_time
async def test_an_unknown_agent_ends_before_anything_is_spent() -> None:
    stage = await RunStage.opened("r-1", asked={"agent": {"name": "nobody"}})
    stage.publish("r-2", agent={"name": "support", "tools": ["orders.rm"]})
    await finished(stage)

    assert (cause(stage, "r-1"), cause(stage, "r-2")) == ("unknown_agent", "unknown_agent")
    assert stage.provider.calls == []


@on_virtual_time
async def test_a_run_without_a_budget_has_that_of_its_agent() -> None:
    stage = RunStage(TWO_STEPS)
    await stage.worker.open()
    body = {
        "kind": "request",
        "request_id": "r-1",
        "workflow_id": WORKFLOW,
        "answer_schema": {"kind": "text"},
        "context": {"instructions": "x"},
        "agent": {"name": "support"},
    }
    stage.broker.publish(json.dumps(body).encode())
    stage.names.append("r-1")
    await finished(stage)

    assert final_account(stage.broker)["limit"]["attempts"] == 20


@on_virtual_time
async def test_a_result_that_came_without_a_worker_is_applied_before_its_time_is_over() -> None:
    slow = [(10.0, {"kind": "ok", "value": "done"})]
    stage = await RunStage.opened(
        "r-1", steps=(actions(call()), actions(says("Well."))), tooling=lambda _: slow
    )
    await until(lambda: stage.tools.ran != [])
    await stage.crash()
    await asyncio.sleep(100)
    await stage.worker.open()
    await finished(stage)

    assert stage.tools.ran == ["r-1.call.1.0/1"]
    assert [step["outcome"]["kind"] for step in stage.steps("tool_ended")] == ["ok"]


@on_virtual_time
async def test_an_open_run_keeps_its_agent_when_the_settings_have_another_or_none() -> None:
    """Also on the worker that opens the lane after it."""

    def forget_agents(stage: RunStage) -> None:
        stage.worker.context.planner.change(BackendChange({}), Agents())

    slow = [(10.0, {"kind": "ok", "value": "done"})]
    stage = await RunStage.opened(
        "r-1", steps=(actions(call()), actions(says("Well."))), tooling=lambda _: slow
    )
    await until(lambda: stage.tools.ran != [])
    forget_agents(stage)
    await stage.crash()
    forget_agents(stage)
    await stage.worker.open()
    stage.publish("r-2")
    await finished(stage)

    assert terminals(stage.broker) == {"r-1": "result", "r-2": "dead_letter"}
    assert cause(stage, "r-2") == "unknown_agent"
