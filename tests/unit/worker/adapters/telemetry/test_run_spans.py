"""The spans of a run: one tree without a gap, from its request over its calls to its outcome."""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from answerbus.budget import Usage
from answerbus.topics import PARTITIONS_DEFAULT, RESULTS
from answerbus.trace import Trace, read_trace
from services.telemetry.span import Attributes, Span
from services.worker.adapters.telemetry.span_observer import SpanObserver
from services.worker.core.attempt.reply import Answered, CallFacts, Reply
from services.worker.ports.observer import Observers
from tests.unit.worker.core.run_builders import actions, says
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import (
    CALLS,
    TWO_STEPS,
    WORKFLOW,
    RunStage,
    RunWorker,
    full_id,
)
from tests.unit.worker.lane.virtual import run

USAGE = Usage(input_tokens=9, output_tokens=5, cached_tokens=4, reasoning_tokens=2)


@dataclass
class KeptSpans:
    """What an exporter was given."""

    spans: list[Span] = field(default_factory=list)

    def span(self, span: Span) -> None:
        self.spans.append(span)

    def call(self, duration_s: float, attributes: Attributes) -> None:
        """Not looked at here."""

    def tokens(self, kind: Literal["input", "output"], count: int, attributes: Attributes) -> None:
        """Not looked at here."""


async def observed(kept: KeptSpans, said: Reply | None = None, **stage: Any) -> RunStage:
    """A run that has ended, with its spans; `said` is what its model answers each time."""
    made = RunStage(steps=TWO_STEPS, **stage)
    made.provider.reply = said
    around = replace(made.worker.context, observer=Observers([SpanObserver(kept)]))
    await made.crash()
    await made.worker.crash()
    made.worker = RunWorker(made.broker, around)
    await made.worker.open()
    made.publish("r-1")
    await finished(made)
    await made.end()
    return made


def test_a_run_is_one_tree_of_spans_and_its_calls_name_their_own() -> None:
    kept = KeptSpans()

    async def main() -> None:
        stage = await observed(kept)
        told.update(calls_of(stage))
        outcome.append(read_trace(stage.broker.log(RESULTS).records[0].headers))

    told: dict[str, Trace | None] = {}
    outcome: list[Trace | None] = []
    run(main())
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
    assert outcome == [agent.trace]
    assert {span.attributes["gen_ai.conversation.id"] for span in kept.spans} == {WORKFLOW}
    assert told == {str(span.attributes["gen_ai.tool.call.id"]): span.trace for span in tools}
    assert set(told) == {full_id(f"r-1.call.{it}") for it in ("1.0", "1.1", "2.0")}
    assert all(span.kind == "internal" and not span.failed for span in tools)
    assert agent.attributes["gen_ai.operation.name"] == "invoke_agent"


def calls_of(stage: RunStage) -> dict[str, Trace | None]:
    """The trace that each published call names."""
    return {
        json.loads(record.value)["call_id"]: read_trace(record.headers)
        for number in range(PARTITIONS_DEFAULT)
        for record in stage.broker.log(CALLS, number).records
        if record.value
    }


def test_a_call_that_failed_says_how() -> None:
    kept, failed = KeptSpans(), {"kind": "error", "code": "away", "message": "no"}
    run(observed(kept, tooling=lambda _: [(0.02, failed)]))
    spans = [span for span in kept.spans if span.name.startswith("execute_tool")]

    assert {span.attributes["error.type"] for span in spans} == {"error"}
    assert all(span.failed for span in spans)


def test_tokens_of_caches_and_thoughts_are_named() -> None:
    kept = KeptSpans()
    said = Answered(json.dumps(actions(says("Done."))), CallFacts("m", "req", "stop", USAGE))
    run(observed(kept, said))
    (chat,) = (span for span in kept.spans if span.name == "chat m")

    used = {name: n for name, n in chat.attributes.items() if name.startswith("gen_ai.usage.")}
    assert used == {
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
