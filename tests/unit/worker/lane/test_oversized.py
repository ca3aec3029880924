"""A record that its topic does not take ends its own request, and no other waits for that."""

import base64
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from answerbus.topics import (
    ATTEMPTS,
    DEAD_LETTERS,
    LEDGER,
    REQUESTS,
    RESULTS,
    RETRIES,
    RUNS,
    STEPS,
    Topic,
)
from services.worker.core.attempt.reply import Reply, TimedOut
from services.worker.lane.state.oversized import KNOWN_MAX, Oversized
from services.worker.ports.kafka import OutRecord, RecordTooLarge
from tests.unit.worker.builders import answered, body, workflow_of
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.delegating import DelegatingStage, check_tree, delegate, wrapped
from tests.unit.worker.lane.run_checks import breaks, check
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import (
    FakeProvider,
    Worker,
    audit,
    done,
    events,
    final_account,
    until,
)

Json = dict[str, Any]

LARGE = "x" * 12_000
TAKES = 10_000
OTHER = workflow_of(0, 1)
PLAN: Json = {"answer_schema": {"kind": "contract", "name": "plan_proposal", "version": 1}}


def letter(stage: Stage | RunStage, name: str = "r-1") -> Json:
    (found,) = [e for e in events(stage.broker, DEAD_LETTERS) if e["request_id"] == name]
    return found


def openings(worker: Worker) -> int:
    return len(worker.shards)


async def ended(of: Stage, takes: dict[Topic, int], **more: Any) -> None:
    """One request, and one of another workflow that has its result whatever comes of the first."""
    await of.worker.open()
    of.broker.takes = takes
    of.publish("r-1", **more)
    of.publish("r-2", workflow_id=OTHER)
    await of.end()
    assert [e["request_id"] for e in events(of.broker, RESULTS)] == ["r-2"]
    assert final_account(of.broker)["spent"]["attempts"] == 1


def said(large: Reply) -> FakeProvider:
    return FakeProvider(lambda name, _: (1.0, large if name == "r-1" else answered()))


@on_virtual_time
async def test_a_result_that_its_topic_does_not_take_ends_as_too_large() -> None:
    stage = Stage(said(answered(LARGE)))
    await ended(stage, {RESULTS: TAKES})

    found = letter(stage)
    assert found["cause"] == {"kind": "answer_too_large"}
    assert found["request"]["request_id"] == "r-1"
    assert found["notes"][-1].endswith(" bytes is larger than the topic results takes")
    (attempt,) = [e for e in events(stage.broker, ATTEMPTS) if e["request_id"] == "r-1"]
    assert (attempt["outcome"], attempt["usage"]["output_tokens"]) == ("dead_letter", 5)
    assert stage.provider.made_for("r-1") == [1]
    assert openings(stage.worker) == 2


@pytest.mark.parametrize(
    ("reply", "kind"), [(answered("{"), "answer_too_large"), (TimedOut(60.0), "cancelled")]
)
@on_virtual_time
async def test_a_retry_that_its_topic_does_not_take_is_not_tried(reply: Reply, kind: str) -> None:
    stage = Stage(said(reply))
    await ended(stage, {RETRIES: TAKES}, **PLAN, context={"instructions": LARGE})
    assert letter(stage)["cause"]["kind"] == kind


@on_virtual_time
async def test_many_results_that_their_topic_does_not_take_are_found_out_at_once() -> None:
    """Else the lane would open once for each, and nobody's request would end meanwhile."""
    stage = Stage(FakeProvider(lambda *_: (1.0, answered(LARGE))))
    await stage.worker.open()
    stage.broker.takes = {RESULTS: TAKES}
    stage.publish(*(f"r-{n}" for n in range(40)), policy={"ordering": "none"})
    await stage.end()

    ended = {e["cause"]["kind"] for e in events(stage.broker, DEAD_LETTERS)}
    assert ended == {"answer_too_large"}
    assert openings(stage.worker) <= 4  # not all answers are there when the first is refused


@on_virtual_time
async def test_what_no_topic_takes_of_what_a_provider_says_is_left_out() -> None:
    """A megabyte is too much for both the result and the attempt, whatever the broker is set to."""
    facts = replace(answered().facts, service_tier="x" * 2**20)

    stage = Stage(said(replace(answered(), facts=facts)))
    await ended(stage, {})

    assert letter(stage)["cause"] == {"kind": "answer_too_large"}
    (attempt,) = [e for e in events(stage.broker, ATTEMPTS) if e["request_id"] == "r-1"]
    assert (attempt["model"], attempt["counted"]) == (None, True)
    assert openings(stage.worker) == 2
    assert breaks(stage) == []


@pytest.mark.parametrize("takes", [{DEAD_LETTERS: TAKES}, {RESULTS: TAKES, DEAD_LETTERS: TAKES}])
@on_virtual_time
async def test_a_dead_letter_that_its_topic_does_not_take_leaves_out_the_request(
    takes: dict[Topic, int],
) -> None:
    asked: Json = {"context": {"instructions": LARGE}, "labels": {"team": "red"}}
    asked |= {} if RESULTS in takes else {**PLAN, "policy": {"on_invalid": "dead_letter"}}

    stage = Stage(said(answered(LARGE)))
    await ended(stage, takes, **asked)

    found = letter(stage)
    kind = "answer_too_large" if RESULTS in takes else "invalid_answer"
    assert found["cause"]["kind"] == kind
    assert (found["request"], found["raw"], found["labels"]) == (None, None, {})
    assert found["workflow_id"] == workflow_of(0)


@on_virtual_time
async def test_a_record_that_is_no_request_leaves_its_bytes_out_of_its_letter() -> None:
    stage = Stage()
    stage.broker.takes = {DEAD_LETTERS: TAKES}
    stage.broker.publish(LARGE.encode(), 0, [("h", b"v")])
    stage.publish("r-2")
    await stage.worker.open()
    await stage.all_done()
    await stage.worker.drain()

    (found,) = events(stage.broker, DEAD_LETTERS)
    raw = found["raw"]
    assert (raw["bytes"], raw["truncated"], raw["headers"]) == (len(LARGE), True, [])
    assert base64.b64decode(raw["base64"]) == b""


@on_virtual_time
async def test_a_record_that_cannot_be_forwarded_ends_in_its_own_partition() -> None:
    stage = Stage()
    await stage.worker.open()
    stage.broker.takes = {REQUESTS: TAKES}
    asked = body("r-1", workflow_of(1), context={"instructions": LARGE})
    stage.broker.publish(json.dumps(asked).encode(), 0)
    stage.publish("r-2")
    await stage.all_done()
    await stage.worker.drain()

    found = letter(stage)
    assert (found["cause"], found["workflow_id"]) == (
        {"kind": "request_too_large"},
        workflow_of(1),
    )
    assert json.loads(base64.b64decode(found["raw"]["base64"])) == asked
    assert events(stage.broker, REQUESTS, partition=1) == []


def test_what_is_known_is_bounded() -> None:
    found = Oversized()
    for number in range(KNOWN_MAX + 5):
        record = OutRecord(RESULTS, 0, b"", b"v", [], about=f"e-{number}")
        found.add(RecordTooLarge(record))
    found.add(RecordTooLarge(OutRecord(LEDGER, 0, b"", b"v", [])))

    assert [found.has(f"e-{number}", RESULTS) for number in (4, 5, KNOWN_MAX + 4)] == [
        False, True, True,
    ]  # fmt: skip


ASKS = (actions(call(order_id="1"), call(order_id="2")), actions(says("All is well.")))


async def run_ended(stage: RunStage, takes: dict[Topic, int]) -> None:
    await stage.worker.open()
    stage.broker.takes = takes
    stage.publish("r-1")
    await until(lambda: done(stage.broker, stage.names), 300)
    await stage.end()


@on_virtual_time
async def test_a_result_of_a_tool_that_no_step_can_say_ends_its_run() -> None:
    """The other call ends with it, and its server is informed."""
    stage = RunStage(
        ASKS,
        lambda call: (
            [(0.02, {"kind": "ok", "value": LARGE})] if call["args"]["order_id"] == "1" else []
        ),
    )
    await run_ended(stage, {STEPS: TAKES})

    cause = letter(stage)["cause"]
    assert (cause["kind"], cause["by"]) == ("cancelled", "answerbus")
    assert cause["reason"].endswith(" bytes is larger than the topic steps takes")
    assert [e["outcome"]["kind"] for e in stage.steps("tool_ended")] == ["cancelled"] * 2
    assert len(stage.calls("tool_cancel")) == 2
    assert stage.provider.made_for("r-1") == [1]
    check(stage)


@on_virtual_time
async def test_a_run_ends_also_where_no_end_of_a_call_can_be_written() -> None:
    stage = await RunStage.opened(
        "r-1", steps=ASKS, tooling=lambda _: [(5.0, {"kind": "ok", "value": 1})]
    )
    await until(lambda: len(stage.calls()) == 2)
    stage.broker.takes = {STEPS: 300}
    await until(lambda: done(stage.broker, stage.names), 300)
    await stage.end()

    assert letter(stage)["cause"]["kind"] == "cancelled"
    assert (stage.steps("tool_ended"), stage.open_records()) == ([], {})
    audit(stage.broker, stage.provider)


@pytest.mark.parametrize("topic", [STEPS, RUNS])
@on_virtual_time
async def test_a_step_that_its_topic_does_not_take_ends_its_run(topic: Topic) -> None:
    stage = RunStage((actions(call(order_id=LARGE)),))
    await run_ended(stage, {topic: TAKES})

    assert letter(stage)["cause"] == {"kind": "answer_too_large"}
    assert stage.calls() == []
    assert stage.provider.made_for("r-1") == [1]
    assert final_account(stage.broker)["spent"]["attempts"] == 1
    check(stage)


@on_virtual_time
async def test_a_child_that_no_topic_takes_ends_the_run_that_asks_it() -> None:
    asks = delegate("a", instructions=LARGE)
    stage = DelegatingStage((actions(asks), actions(says("Done."))))
    await run_ended(stage, {RUNS: TAKES})

    assert letter(stage)["cause"] == {"kind": "answer_too_large"}
    assert stage.children() == []
    check_tree(stage)


@on_virtual_time
async def test_the_result_of_a_child_that_its_run_cannot_take_ends_the_run() -> None:
    asks = delegate("a", json_schema={"type": "object"})
    answers = {"r-1.call.1.0": [wrapped({"said": LARGE})]}
    stage = DelegatingStage((actions(asks), actions(says("Done."))), answers)
    await run_ended(stage, {STEPS: TAKES})

    assert letter(stage)["cause"]["kind"] == "cancelled"
    assert [child["kind"] for child in stage.children()] == ["dead_letter"]
    check_tree(stage)


@on_virtual_time
async def test_a_result_that_is_too_large_is_not_tried_again_while_children_end() -> None:
    """Its lane opens once, though the call of the child goes on for long."""
    stage = DelegatingStage(
        (actions(delegate("a"), call(order_id="1")), actions(says("Done."))),
        tooling=lambda _: [(1.0, {"kind": "ok", "value": LARGE})],
    )
    stage.provider.child_s = 20.0
    await run_ended(stage, {STEPS: TAKES})

    assert letter(stage)["cause"]["kind"] == "cancelled"
    assert [end["kind"] for end in stage.ended().values()] == ["dead_letter", "cancelled"]
    assert openings(stage.worker) == 2
    check_tree(stage)


@on_virtual_time
async def test_a_run_ends_also_where_no_end_of_its_child_can_be_written() -> None:
    stage = DelegatingStage((actions(delegate("a")), actions(says("Done."))))
    stage.provider.child_s = 2.0
    await stage.worker.open()
    stage.publish("r-1")
    await until(lambda: stage.steps("step") != [])
    stage.broker.takes = {STEPS: 300}
    await until(lambda: done(stage.broker, stage.names), 300)
    await stage.end()

    assert letter(stage)["cause"]["kind"] == "cancelled"
    assert (stage.steps("tool_ended"), stage.open_records()) == ([], {})


@on_virtual_time
async def test_what_came_of_a_control_is_left_out_where_its_topic_does_not_take_it() -> None:
    stage = RunStage(ASKS)
    await stage.worker.open()
    stage.broker.takes = {STEPS: TAKES}
    told = {"kind": "approval", "call_id": "none", "args_digest": "sha256:" + "0" * 64}
    edited = {"args": {"n": LARGE}, "asked_digest": "sha256:" + "0" * 64}
    stage.control({**told, **edited, "decision": "approved"})
    stage.publish("r-1")
    await until(lambda: done(stage.broker, stage.names), 300)
    await stage.end()

    assert stage.steps("control_applied") == []
    (result,) = events(stage.broker, RESULTS)
    assert result["answer"] == "All is well."


@on_virtual_time
async def test_a_lane_that_a_record_of_its_own_keeps_shut_names_its_topic() -> None:
    """It said that another worker has fenced it, or that it is cut off from Kafka."""
    stage = Stage()
    stage.broker.takes = {LEDGER: 10}
    stage.worker.assign(0)
    await until(lambda: bool(stage.worker.membership.lifecycles))
    await until(lambda: stage.worker.lifecycle.stuck is not None)
    assert re.fullmatch(
        r"LaneLost: the producer of the lane is gone: a record of \d+ bytes is larger than the "
        r"topic ledger takes: `answerbus doctor` compares max\.message\.bytes, `topics apply` "
        r"sets it",
        stage.worker.lifecycle.stuck or "",
    )
    stage.broker.takes = {}
    stage.publish("r-1")
    await stage.end()
