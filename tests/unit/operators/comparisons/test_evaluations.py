"""What a collector is sent of a comparison: a span for each call, with what was found below it."""

from typing import Any

import pytest
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from answerbus.trace import new_trace
from services.operators.comparisons.evaluations import AskedProfile, call_span, evaluations
from services.telemetry.otlp import EVALUATION, OtlpEvaluations
from tests.unit.operators.comparisons.test_comparisons import compared
from tests.unit.operators.stored_examples import body_of

ASKED = AskedProfile("gemini", "gemini-3-flash")
SECRET = "what-was-answered"


@pytest.mark.parametrize(
    ("example", "changes", "found"),
    [
        ("differs", {}, [("valid", 1.0, "answered"), ("equal", 0.0, "different")]),
        ("differs", {"equal": True}, [("valid", 1.0, "answered"), ("equal", 1.0, "equal")]),
        ("step", {}, [("valid", 0.0, "invalid")]),
        (
            "judged_better",
            {},
            [("valid", 1.0, "answered"), ("equal", 0.0, "different"), ("judgement", 1.0, "better")],
        ),
    ],
)
def test_each_measure_that_applies_has_a_score(
    example: str, changes: dict[str, Any], found: list[tuple[str, float, str]]
) -> None:
    assert list(evaluations(compared(example, **changes))) == [
        {
            "gen_ai.evaluation.name": f"answerbus.{name}",
            "gen_ai.evaluation.score.value": score,
            "gen_ai.evaluation.score.label": label,
        }
        for name, score, label in found
    ]


def test_a_call_that_failed_has_an_error_and_no_score() -> None:
    (found,) = evaluations(compared("failed"))

    assert found == {"gen_ai.evaluation.name": "answerbus.valid", "error.type": "failed"}
    assert call_span(compared("failed"), ASKED).failed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"verdict": "undecided"}, {"gen_ai.evaluation.score.label": "undecided"}),
        ({"verdict": None, "by": {"outcome": "invalid"}}, {"error.type": "invalid"}),
    ],
)
def test_a_judge_that_decides_nothing_gives_no_score(
    changes: dict[str, Any], said: dict[str, str]
) -> None:
    judged = body_of("compared/judged_better")["judged"] | changes
    *_, found = evaluations(compared("judged_better", judged=judged))

    assert found == {"gen_ai.evaluation.name": "answerbus.judgement", **said}


def test_events_are_sent_below_the_span_of_their_call_and_hold_no_content() -> None:
    spans = InMemorySpanExporter()
    logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    exporter = OtlpEvaluations(spans, logs, "new-2026-11-22")
    again = {**body_of("compared/differs")["again"], "answer": SECRET, "why": SECRET}
    seen = compared(again=again, fields=[{"path": f"/{SECRET}", "equal": False}])
    exporter.evaluated(call_span(seen, ASKED), evaluations(seen))
    exporter.close()

    (span,) = spans.get_finished_spans()
    records = [one.log_record for one in logs.get_finished_logs()]
    trace = new_trace(seen.event_id, seen.event_id)
    assert span.name == "chat gemini-3-flash"
    assert span.attributes is not None
    assert span.attributes["gen_ai.provider.name"] == "gcp.gemini"
    assert span.attributes["gen_ai.conversation.id"] == "order-4711"
    assert span.end_time
    assert span.start_time
    assert span.end_time - span.start_time == 970 * 1_000_000
    assert span.context.span_id == int(trace.span_id, 16)
    assert [one.event_name for one in records] == [EVALUATION] * 2
    assert [one.attributes for one in records] == list(evaluations(seen))
    assert {(one.trace_id, one.span_id) for one in records} == {
        (int(trace.trace_id, 16), int(trace.span_id, 16))
    }
    assert SECRET not in span.to_json() + str(records)
