"""The spans of a run: one tree without a gap, from its request over its calls to its outcome."""

import json

from answerbus.budget import Usage
from answerbus.topics import PARTITIONS_DEFAULT, RESULTS, RUNS
from answerbus.trace import Trace, read_trace
from services.telemetry.span import Span
from services.worker.core.attempt.reply import Answered, CallFacts
from tests.unit.worker.adapters.telemetry.observed_runs import observed, watched
from tests.unit.worker.core.run_builders import actions, says
from tests.unit.worker.lane.delegating import FAN_OUT, DelegatingStage
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import CALLS, WORKFLOW, RunStage, full_id
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import done, until

USAGE = Usage(input_tokens=9, output_tokens=5, cached_tokens=4, reasoning_tokens=2)


def test_a_run_is_one_tree_of_spans_and_its_calls_name_their_own() -> None:
    kept, stage = run(observed())
    published = calls_of(stage)
    by_name: dict[str, list[Span]] = {}
    for span in kept.spans:
        by_name.setdefault(span.name, []).append(span)
    (agent,) = by_name["invoke_agent support"]
    tools = by_name["execute_tool orders.get"]

    assert {name: len(found) for name, found in by_name.items()} == {
        "invoke_agent support": 1,
        "chat m": 3,
        "execute_tool orders.get": 3,
    }
    assert agent.parent is None
    assert {span.parent for span in (*by_name["chat m"], *tools)} == {agent.trace}
    assert read_trace(stage.broker.log(RESULTS).records[0].headers) == agent.trace
    assert {span.attributes["gen_ai.conversation.id"] for span in kept.spans} == {WORKFLOW}
    assert published == {str(span.attributes["gen_ai.tool.call.id"]): span.trace for span in tools}
    assert set(published) == {full_id(f"r-1.call.{it}") for it in ("1.0", "1.1", "2.0")}
    assert not any(span.failed for span in tools)


def calls_of(stage: RunStage, kind: str = "tool_call") -> dict[str, Trace | None]:
    """The trace that each published call names, or what came after it."""
    return {
        json.loads(record.value)["call_id"]: read_trace(record.headers)
        for number in range(PARTITIONS_DEFAULT)
        for record in stage.broker.log(CALLS, number).records
        if record.value and json.loads(record.value)["kind"] == kind
    }


@on_virtual_time
async def test_what_ends_a_call_is_in_its_span() -> None:
    stage = await RunStage.opened("r-1", tooling=lambda _: ())
    await until(lambda: len(stage.calls()) == 2)
    stage.cancel("r-1")
    await finished(stage)
    await stage.end()

    assert len(calls_of(stage, "tool_cancel")) == 2
    assert calls_of(stage, "tool_cancel") == calls_of(stage)


@on_virtual_time
async def test_a_child_is_below_the_call_that_asks_it() -> None:
    stage = DelegatingStage(steps=FAN_OUT)
    kept = await watched(stage)
    stage.publish("r-1", budget={"attempts": 9})
    await until(lambda: done(stage.broker, stage.names))
    await stage.end()
    (agent,) = kept.named("invoke_agent support")
    calls = {span.attributes["gen_ai.tool.call.id"]: span for span in kept.named(DELEGATED)}
    children = {
        str(span.attributes["answerbus.request.id"]): span for span in kept.named("answer request")
    }

    assert children.keys() == {"r-1.call.1.0", "r-1.call.1.1"}
    assert {span.parent for span in calls.values()} == {agent.trace}
    for name, child in children.items():
        assert child.parent == calls[full_id(name)].trace
    known = {span.trace.span_id for span in kept.spans}
    assert {span.parent.span_id for span in kept.spans if span.parent} <= known
    asked = [r for r in stage.broker.log(RUNS).records if b'"run_child"' in (r.value or b"")]
    assert {read_trace(r.headers) for r in asked} == {span.trace for span in calls.values()}


DELEGATED = "execute_tool delegate"


def test_a_call_that_failed_says_how() -> None:
    failed = {"kind": "error", "code": "away", "message": "no"}
    kept, _ = run(observed(tooling=lambda _: [(0.02, failed)]))
    spans = kept.named("execute_tool orders.get")

    assert {span.attributes["error.type"] for span in spans} == {"error"}
    assert all(span.failed for span in spans)


def test_a_run_that_ends_without_an_answer_says_why() -> None:
    kept, _ = run(observed(asked={"budget": {"attempts": 1}}))
    (agent,) = kept.named("invoke_agent support")

    assert agent.failed
    assert agent.attributes["answerbus.outcome"] == "dead_letter"
    assert agent.attributes["error.type"] == "budget_exhausted"


def test_tokens_of_caches_and_thoughts_are_named() -> None:
    said = Answered(json.dumps(actions(says("Done."))), CallFacts("m", "req", "stop", USAGE))
    kept, _ = run(observed(said))
    (chat,) = kept.named("chat m")

    used = {name: n for name, n in chat.attributes.items() if name.startswith("gen_ai.usage.")}
    assert used == {
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    (agent,) = kept.named("invoke_agent support")
    assert not [name for name in agent.attributes if name.startswith("gen_ai.usage.")]
