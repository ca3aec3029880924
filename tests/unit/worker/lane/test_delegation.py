"""Runs that delegate: what their children are asked, how they are joined, and what bounds them."""

import json
from typing import Any

import pytest

from answerbus.topics import ATTEMPTS, RESULTS
from services.text.digest import text_digest
from services.worker.core.run import children
from services.worker.lane.state.lane_state import LaneState
from tests.unit.worker.builders import workflow_of
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.delegating import (
    FAN_OUT,
    SHIPPED,
    DelegatingStage,
    check_tree,
    delegate,
    finish,
    wrapped,
)
from tests.unit.worker.lane.fakes import Fault
from tests.unit.worker.lane.run_checks import cause
from tests.unit.worker.lane.run_world import full_id
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import done, events, final_account, terminals, until

pytestmark = pytest.mark.wide

Json = dict[str, Any]
OTHER = workflow_of(0, 1)


async def finished(stage: DelegatingStage, limit_s: float = 900.0) -> None:
    await until(lambda: done(stage.broker, stage.names), limit_s)
    await stage.end()
    check_tree(stage)


async def told(stage: DelegatingStage, **more: Any) -> None:
    await stage.worker.open()
    stage.publish("r-1", **more)
    await finished(stage)


@on_virtual_time
async def test_children_answer_by_the_schemas_that_a_model_wrote_and_are_joined() -> None:
    stage = DelegatingStage()
    await told(stage, budget={"attempts": 9})

    (result,) = [event for event in events(stage.broker, RESULTS) if event["request_id"] == "r-1"]
    assert result["answer"] == "Joined."
    assert result["run"]["children"] == 2
    assert [one["answer"]["output"] for one in stage.children()] == [SHIPPED, SHIPPED]
    assert final_account(stage.broker)["spent"]["attempts"] == 4
    assert stage.ended().keys() == {"r-1.call.1.0", "r-1.call.1.1"}
    last = stage.provider.prompts[-1]
    assert "call:1.0 delegate" in str(last.turns)
    child = stage.provider.prompts[1]
    assert "Look at a." not in child.system
    assert "Look at a." in str(child.turns)


def test_no_child_is_made_where_a_step_is_settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are asked take long with large facts; before, others have turns in between."""
    settling, made = list[str](), list[bool]()
    commit, child_of = LaneState.commit, children.child_of

    def settled(*args: Any) -> Any:
        settling.append("one")
        try:
            return commit(*args)
        finally:
            settling.pop()

    def counted(*args: Any) -> Any:
        made.append(bool(settling))
        return child_of(*args)

    monkeypatch.setattr(LaneState, "commit", settled)
    monkeypatch.setattr(children, "child_of", counted)

    async def main() -> None:
        unknown = delegate("c", use=["fact:nothing"])
        steps = (actions(delegate("a"), delegate("b"), unknown), actions(says("Joined.")))
        stage = DelegatingStage(steps)
        await told(stage)
        assert len(stage.children()) == 2

    run(main())
    assert made == [False, False, False]


@on_virtual_time
async def test_a_child_is_shown_its_problems_and_corrects_them() -> None:
    wrong = wrapped({"state": "?"})
    answers = {"r-1.call.1.0": (wrong, wrapped())}
    stage = DelegatingStage((actions(delegate()), actions(says("Well."))), answers)
    await told(stage)

    outcomes = [event["outcome"] for event in events(stage.broker, ATTEMPTS)]
    assert outcomes == ["step", "retry", "result", "result"]


@on_virtual_time
async def test_a_child_may_say_that_it_cannot() -> None:
    no = {"success": False, "output": None, "notes": ["n"], "failure_reason": "no parcel"}
    stage = DelegatingStage((actions(delegate()), actions(says("Well."))), {"r-1.call.1.0": (no,)})
    await told(stage)

    told_value = stage.ended()["r-1.call.1.0"]["value"]
    assert told_value | {"notes": ["n"]} == no
    assert told_value["notes"][0] == "n"


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"json_schema": {"type": "strin"}}, "/json_schema/type"),
        ({"json_schema": {"$ref": "https://example.com/x"}}, "/json_schema"),
        ({"json_schema": {"type": "string", "description": "x" * 20_000}}, "/json_schema"),
        ({"instructions": "x" * 20_000}, "/instructions"),
        ({"use": ["fact:nowhere"]}, "/use/0"),
        ({"use": ["call:7.0"]}, "/use/0"),
        ({"agent": "another"}, "/agent"),
        ({"profile": "another"}, "/profile"),
        ({"name": "with spaces"}, "/name"),
        ({"more": 1}, ""),
    ],
)
@on_virtual_time
async def test_what_cannot_be_asked_comes_back_in_the_same_step_for_nothing(
    args: Json, path: str
) -> None:
    steps = (actions(delegate(**args), delegate("b")), actions(says("Well.")))
    stage = DelegatingStage(steps)
    await told(stage)

    outcome = stage.ended()["r-1.call.1.0"]
    assert outcome["kind"] == "invalid_args"
    assert outcome["problems"][0]["path"].startswith(path)
    assert [one["request_id"] for one in stage.children()] == ["r-1.call.1.1"]
    assert final_account(stage.broker)["spent"]["attempts"] == 3


@on_virtual_time
async def test_a_child_is_given_facts_and_results_by_reference_with_their_trust() -> None:
    facts = [
        {"name": "manifest", "value": {"parcel": "P-1"}, "trust": "trusted"},
        {"name": "mail", "value": "SAYS-ANYTHING"},
    ]
    use = ["fact:manifest", "fact:mail", "call:1.0"]
    steps = (actions(call()), actions(delegate(use=use)), actions(says("Well.")))
    stage = DelegatingStage(steps)
    context = {"instructions": "Do.", "facts": facts}
    await told(stage, context=context)

    (child,) = [p for p in stage.provider.prompts if p.request_id == "r-1.call.2.0"]
    text = "".join(turn.text for turn in child.turns)
    fenced = [part.partition("</data")[0] for part in text.split("<data")[1:]]
    assert not any("P-1" in part for part in fenced)
    assert "P-1" in text
    assert any("SAYS-ANYTHING" in part for part in fenced)
    assert any("done" in part and "call:1.0 orders.get" in part for part in fenced)
    assert "SAYS-ANYTHING" not in child.system


@on_virtual_time
async def test_a_child_is_given_a_result_that_no_run_could_take_by_its_digest() -> None:
    """Of a tool as of a child: its size, its beginning and its digest."""
    page = "a page " * 12_000

    long = {"type": "string", "maxLength": 100_000}
    steps = (
        actions(call(), delegate("long", json_schema=long)),
        actions(delegate("b", use=["call:1.0", "call:1.1"])),
        actions(says("Well.")),
    )
    answers = {"r-1.call.1.1": (wrapped(page),)}
    stage = DelegatingStage(steps, answers, lambda _: [(0.02, {"kind": "ok", "value": page})])
    await stage.worker.open()
    stage.publish("r-1")
    await until(lambda: done(stage.broker, stage.names))
    await stage.end()

    (child,) = [p for p in stage.provider.prompts if p.request_id == "r-1.call.2.0"]
    text = "".join(turn.text for turn in child.turns)
    for call_id, name in (("1.0", "call:1.0 orders.get"), ("1.1", "call:1.1 delegate")):
        ended = stage.ended()[f"r-1.call.{call_id}"]
        assert ended["kind"] == "too_large"
        assert f"{name}:" in text
        assert ended["digest"] in text
        assert str(ended["bytes"]) in text
    assert stage.ended()["r-1.call.1.0"]["digest"] == text_digest(json.dumps(page))
    assert len(text) < 20_000


@on_virtual_time
async def test_what_the_transcript_shortens_a_child_is_given_whole() -> None:
    steps = (
        *(actions(call(order_id=str(n))) for n in range(3)),
        actions(delegate("b", use=["call:1.0"])),
        actions(says("Well.")),
    )
    values = {str(n): f"value-{n} " * 2_000 for n in range(3)}

    def tooling(asked: Json) -> list[tuple[float, Json | None]]:
        return [(0.02, {"kind": "ok", "value": values[asked["args"]["order_id"]]})]

    agent = {"transcript_bytes_max": 40_000}
    stage = DelegatingStage(steps, tooling=tooling, agent=agent)
    await told(stage)

    last, child = (
        "".join(turn.text for turn in prompt.turns) for prompt in stage.provider.prompts[3:5]
    )
    assert "elided" in last
    assert values["0"] not in last
    assert values["0"] in child


@on_virtual_time
async def test_what_does_not_fit_into_a_request_comes_back_with_what_is_large() -> None:
    many = [f"call:{n}.0" for n in range(1, 11)]
    steps = (
        *(actions(call(order_id=str(n))) for n in range(10)),
        actions(delegate("b", use=many)),
        actions(says("Well.")),
    )
    big: Json = {"kind": "ok", "value": "x" * 60_000}
    stage = DelegatingStage(steps, tooling=lambda _: [(0.02, big)])
    await told(stage)

    (problem,) = stage.ended()["r-1.call.11.0"]["problems"]
    assert (problem["path"], problem["code"]) == ("/use", "too_large")
    assert "(call:1.0 orders.get: 60,002; call:2.0" in problem["expected"]


@on_virtual_time
async def test_children_wait_for_a_place_beside_their_siblings() -> None:
    steps = (actions(*(delegate(f"c{n}") for n in range(6))), actions(says("Well.")))
    stage = DelegatingStage(steps, agent={"parallel_max": 2})
    stage.provider.child_s = 1.0
    await told(stage)

    assert stage.provider.most_running == 2
    assert len(stage.children()) == 6


@pytest.mark.parametrize(("more", "which"), [({"children_max": 1}, "children")])
@on_virtual_time
async def test_a_limit_leaves_no_room_for_a_child(more: Json, which: str) -> None:
    stage = DelegatingStage(**more)
    await told(stage)

    assert stage.ended()["r-1.call.1.1"] == {"kind": "not_run", "which": which}
    assert len(stage.children()) == 1


@on_virtual_time
async def test_children_are_runs_too_down_to_the_depth_that_the_root_allows() -> None:
    again = actions(delegate("deeper", agent="support"))
    stage = DelegatingStage((again, actions(says("Well."))), depth_max=2)
    stage.provider.fallback = lambda _, number: again if number == 0 else finish(wrapped())
    await told(stage)

    depths = [one["parent"]["depth"] for one in stage.children()]
    assert sorted(depths) == [1, 2]
    deepest = stage.ended()["r-1.call.1.0.call.1.0.call.1.0"]
    assert deepest == {"kind": "not_run", "which": "depth"}
    (root,) = [event for event in events(stage.broker, RESULTS) if event["request_id"] == "r-1"]
    assert root["run"]["children"] == 2


@on_virtual_time
async def test_a_child_that_may_not_spend_ends_typed_and_its_run_can_end() -> None:
    stage = DelegatingStage()
    await told(stage, budget={"attempts": 3})

    kinds = sorted(outcome["kind"] for outcome in stage.ended().values())
    assert kinds == ["dead_letter", "ok"]
    assert terminals(stage.broker)["r-1"] == "result"
    assert final_account(stage.broker)["spent"]["attempts"] == 3


@on_virtual_time
async def test_the_reserved_minimum_of_tokens_and_money_is_kept_too() -> None:
    stage = DelegatingStage()
    stage.provider.child_s = 1.0
    await stage.worker.open()
    stage.publish("probe")
    await until(lambda: done(stage.broker, ["probe"]))
    first, child, *_ = (prompt.tokens_max for prompt in stage.provider.prompts)
    tokens = first + child - 1
    stage.publish("r-1", workflow_id=OTHER, budget={"attempts": 99, "tokens": tokens})
    await finished(stage)

    assert terminals(stage.broker)["r-1"] == "result"
    assert {outcome["cause"]["kind"] for outcome in stage.outcomes() if "cause" in outcome} == {
        "budget_exhausted"
    }


@pytest.mark.parametrize("scope", ["request", "workflow"])
@on_virtual_time
async def test_a_cancelled_run_takes_children_along_those_that_wait_too(scope: str) -> None:
    steps = (actions(*(delegate(f"c{n}") for n in range(4))), actions(says("Well.")))
    stage = DelegatingStage(steps, agent={"parallel_max": 2})
    stage.provider.child_s = 2.0
    await stage.worker.open()
    stage.publish("r-1")
    await until(lambda: len(stage.provider.calls) == 3)
    body = {"kind": "cancel", "scope": scope}
    stage.control(body | ({"request_id": "r-1"} if scope == "request" else {}))
    await finished(stage)

    assert cause(stage, "r-1") == "cancelled"
    assert len(stage.provider.calls) == 3
    assert len(stage.children()) == 2


@on_virtual_time
async def test_the_deadline_ends_the_tree_from_below() -> None:
    stage = DelegatingStage(agent={"parallel_max": 1})
    stage.provider.child_s = 20.0
    await told(stage, ttl_s=12)

    assert cause(stage, "r-1") == "deadline_passed"
    assert len(stage.provider.calls) == 2


@on_virtual_time
async def test_an_id_in_use_is_not_taken_for_a_child() -> None:
    stage = await DelegatingStage.opened("r-1.call.1.0", asked={"agent": None})
    stage.publish("r-1")
    parent = {"request_id": "r-1", "call_id": full_id("r-1.call.1.1")}
    stage.provider.child_s = 2.0
    await until(lambda: len(stage.provider.calls) >= 3)
    stage.publish("intruder", agent=None, parent=parent)
    await finished(stage)

    assert cause(stage, "intruder") == "unknown_parent"
    names = {one["request_id"] for one in stage.children()}
    assert names == {"r-1.call.1.0.2", "r-1.call.1.1", "intruder"}


@pytest.mark.parametrize("kills", [1, 2])
def test_a_worker_that_is_killed_at_any_moment_loses_no_child_and_no_join(kills: int) -> None:
    async def history(after_s: float) -> None:
        stage = await DelegatingStage.opened("r-1")
        await stage.crash_often(kills, after_s)
        await finished(stage)
        assert set(terminals(stage.broker).values()) == {"result"}
        assert len(stage.children()) == 2

    for number in range(0, 40, 2 * kills):
        run(history(0.011 * number))


@pytest.mark.parametrize("fault", list(Fault))
def test_a_commit_that_fails_in_any_way_loses_no_child_and_no_join(fault: Fault) -> None:
    async def history(place: int) -> None:
        stage = DelegatingStage(FAN_OUT)
        await stage.worker.open()
        stage.broker.faults.extend([None] * place + [fault])
        stage.publish("r-1")
        await finished(stage)
        assert set(terminals(stage.broker).values()) == {"result"}

    for place in range(0, 14, 2):
        run(history(place))
