"""What is counted and sent is what the topics hold, as far as the worker knows what they hold."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from answerbus.account_id import replay_account
from answerbus.budget import Usage
from answerbus.registry import Registry
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, REFUSALS, RESULTS
from services.telemetry import metrics
from services.telemetry.counts import Metric
from services.telemetry.exposition import exposition
from services.telemetry.span import Attributes, Span
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.adapters.telemetry.span_observer import SpanObserver
from services.worker.core.attempt.reply import Answered, CallFacts, Reply, Throttled, TimedOut
from services.worker.ports.observer import Observers
from tests.unit.worker.adapters.telemetry.observed_runs import NO_CONTENT
from tests.unit.worker.lane.fakes import Broker, Fault
from tests.unit.worker.lane.virtual import run
from tests.unit.worker.lane.world import (
    OUR_WORKFLOW,
    FakeProvider,
    Worker,
    context,
    done,
    events,
    publish,
    until,
)

FACTS = CallFacts("m-2026", "req_1", "stop", Usage(input_tokens=10, output_tokens=2))
SAID: dict[str, list[Reply]] = {
    "good": [Answered("fine", FACTS)],
    "patient": [Throttled(1.0), Answered("fine", FACTS)],
    "late": [TimedOut(5.0), Answered("fine", FACTS)],
    "never": [TimedOut(5.0), TimedOut(5.0)],
}


@dataclass
class Kept:
    """What an exporter was given."""

    spans: list[Span] = field(default_factory=list)
    calls: list[Attributes] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)

    def span(self, span: Span) -> None:
        self.spans.append(span)

    def call(self, duration_s: float, attributes: Attributes) -> None:
        assert duration_s > 0.9
        self.calls.append(attributes)

    def tokens(self, kind: Literal["input", "output"], count: int, attributes: Attributes) -> None:
        assert attributes["gen_ai.operation.name"] == "chat"
        self.used[kind] = self.used.get(kind, 0) + count


def play(request_id: str, attempt: int) -> tuple[float, Reply]:
    return 1.0, SAID[request_id][attempt - 1]


@pytest.mark.parametrize("fault", [None, *Fault], ids=lambda fault: fault.name if fault else "-")
def test_counts_and_spans_agree_with_the_topics(fault: Fault | None) -> None:
    broker, kept = Broker(), Kept()
    measures = MetricsObserver({"default"}, Registry())

    async def main() -> None:
        around = context(FakeProvider(play))
        spans = SpanObserver(kept, around.planner, NO_CONTENT)
        around = replace(around, observer=Observers([measures, spans]))
        broker.publish(b"no JSON")
        for name in SAID:
            policy = {"ordering": "none"}
            budget = {"attempts": 2}
            asked: dict[str, Any] = {"answer_schema": {"kind": "text"}, "policy": policy}
            dead_letter_id = f"{name}.dead-letter"
            account = replay_account(OUR_WORKFLOW, dead_letter_id)
            replay = {"dead_letter_id": dead_letter_id, "round": 1, "account": account, "by": "me"}
            publish(broker, name, budget=budget, replay={**replay, "edited": False}, **asked)
        publish(broker, "elsewhere", profile="made-up")
        worker = Worker(broker, around)
        broker.faults.extend([None, None, fault])
        await worker.open()
        await until(lambda: done(broker, [*SAID, "elsewhere"]), 600)
        await worker.drain()

    run(main())
    counts = measures.counts
    attempts = events(broker, ATTEMPTS)
    terminals = events(broker, RESULTS, REFUSALS, DEAD_LETTERS)
    called = [attempt for attempt in attempts if attempt["duration_ms"] is not None]

    assert counts.totals[metrics.TRANSACTIONS, ("lost",)] == (fault is not None)
    if fault in {Fault.ANSWER_LOST, Fault.HANGS_AND_HAPPENS}:  # nobody knows what has happened
        assert total(measures, metrics.ATTEMPTS) < len(attempts)
        return
    assert total(measures, metrics.ATTEMPTS) == len(attempts)
    assert total(measures, metrics.TERMINALS) == len(terminals) == 6
    by_cause = {labels: n for (m, labels), n in counts.totals.items() if m is metrics.DEAD_LETTERS}
    assert by_cause == {
        ("undecodable", "none", "unknown"): 1,
        ("budget_exhausted", "timed_out", "default"): 1,
        ("unknown_profile", "none", "unknown"): 1,
    }
    assert counts.totals[metrics.TOKENS, ("input", "default")] == 30
    assert len(kept.calls) == len(called) == 7
    assert kept.used == {"input": 30, "output": 6}
    of_requests = {s.trace.span_id: s for s in kept.spans if s.kind == "consumer"}
    of_attempts = [s for s in kept.spans if s.kind == "client"]
    assert len(of_requests) == 5
    assert len(of_attempts) == 7
    assert {s.parent.span_id for s in of_attempts if s.parent} <= set(of_requests)
    ended = sum(spread.total >= 0 for spread in counts.spreads.values())
    assert ended == len(counts.spreads) > 3


def total(measures: MetricsObserver, metric: Metric) -> float:
    return sum(n for (of, _), n in measures.counts.totals.items() if of is metric)


def test_the_text_has_every_metric_and_buckets_that_add_up() -> None:
    counts = MetricsObserver({"default"}, Registry()).counts
    for value in (0.005, 0.02, 99.0):
        counts.observe(metrics.COMMIT_DURATION, value=value)
    text = exposition(counts.samples(), counts.spreads).decode()

    for metric in metrics.METRICS:
        assert f"# TYPE {metric.name.removesuffix('_total')}" in text
    assert 'answerbus_commit_duration_seconds_bucket{le="0.005"} 1.0' in text
    assert 'answerbus_commit_duration_seconds_bucket{le="10.0"} 2.0' in text
    assert 'answerbus_commit_duration_seconds_bucket{le="+Inf"} 3.0' in text
    assert "answerbus_commit_duration_seconds_sum 99.025" in text
    assert "answerbus_requests_lost_to_retention_total 0.0" in text
    assert "answerbus_requests_unread_total 0.0" in text, "the name in the version before"


@pytest.mark.wide
def test_a_label_of_the_settings_is_counted_by_its_values_and_never_by_more_than_so_many() -> None:
    measures = MetricsObserver({"default"}, Registry(), ["tenant"])
    broker = Broker()
    many = [f"t-{number}" for number in range(metrics.LABEL_VALUES_MAX)]
    tenants: list[str | None] = ["acme", None, *many, "acme", None]

    async def main() -> None:
        answered = Answered("fine", replace(FACTS, usage=Usage(micro_usd=7)))
        around = replace(context(FakeProvider(lambda *_: (1.0, answered))), observer=measures)
        for n, tenant in enumerate(tenants):
            labels = {"ticket": f"{n}", **({"tenant": tenant} if tenant else {})}
            publish(broker, f"r-{n}", answer_schema={"kind": "text"}, labels=labels)
        worker = Worker(broker, around)
        await worker.open()
        await until(lambda: done(broker, [f"r-{n}" for n in range(len(tenants))]), 600)
        await worker.drain()

    run(main())
    totals = measures.counts.totals
    counted = {labels: n for (of, labels), n in totals.items() if of is metrics.LABEL_OUTCOMES}

    assert counted["tenant", "acme", "result"] == counted["tenant", "(none)", "result"] == 2
    assert counted["tenant", "(others)", "result"] == 1
    assert totals[metrics.LABEL_SPENT, ("tenant", "acme")] == 14
    assert totals[metrics.SPENT, ("text", "default")] == 7 * len(tenants)
    assert len(counted) == metrics.LABEL_VALUES_MAX + 2
    assert sum(counted.values()) == len(tenants)
    assert {label for label, *_ in counted} == {"tenant"}
