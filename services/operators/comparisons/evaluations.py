"""What a comparison found of each answer, by OpenTelemetry's conventions for GenAI; pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from answerbus.compared import Compared, ComparedAnswer, Judged
from answerbus.trace import new_trace
from services.operators.records.within_limits import amount, moved
from services.telemetry.span import Attributes, Span, genai_provider

NAME = "gen_ai.evaluation.name"
SCORE = "gen_ai.evaluation.score.value"
LABEL = "gen_ai.evaluation.score.label"
_SCORES = {"better": 1.0, "equal": 0.5, "worse": 0.0}


@dataclass(frozen=True, slots=True)
class AskedProfile:
    """The profile whose answers are evaluated."""

    provider: str
    model: str


def call_span(compared: Compared, asked: AskedProfile) -> Span:
    """The call that is evaluated, in a trace of its own; ids and counts, never content."""
    again = compared.again
    failed = again.outcome == "failed"
    known: dict[str, str | int | None] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": genai_provider(asked.provider),
        "gen_ai.request.model": asked.model,
        "gen_ai.response.model": again.model,
        "gen_ai.usage.input_tokens": _count(again.usage.input_tokens),
        "gen_ai.usage.output_tokens": _count(again.usage.output_tokens),
        "gen_ai.conversation.id": compared.workflow_id,
        "error.type": "failed" if failed else None,
        "answerbus.comparison": compared.comparison,
        "answerbus.profile": again.profile,
        "answerbus.request.id": compared.request_id,
        "answerbus.step": compared.step,
        "answerbus.outcome": again.outcome,
    }
    return Span(
        name=f"chat {asked.model}",
        kind="client",
        trace=new_trace(compared.event_id, compared.event_id),
        parent=None,
        start=moved(compared.at, -(again.duration_ms or 0)),
        end=compared.at,
        attributes={name: value for name, value in known.items() if value is not None},
        failed=failed,
    )


def evaluations(compared: Compared) -> Iterator[Attributes]:
    """One for each measure that applies; a call that failed has an error and no score."""
    yield _valid(compared.again)
    if compared.equal is not None:
        label = "equal" if compared.equal else "different"
        yield {NAME: "answerbus.equal", SCORE: float(compared.equal), LABEL: label}
    if compared.judged is not None:
        yield _judgement(compared.judged)


def _valid(again: ComparedAnswer) -> Attributes:
    if again.outcome == "failed":
        return {NAME: "answerbus.valid", "error.type": "failed"}
    return {
        NAME: "answerbus.valid",
        SCORE: float(again.outcome == "answered"),
        LABEL: again.outcome,
    }


def _judgement(judged: Judged) -> Attributes:
    name = {NAME: "answerbus.judgement"}
    match judged.verdict:
        case None:
            return {**name, "error.type": judged.by.outcome}
        case "undecided":
            return {**name, LABEL: "undecided"}
        case verdict:
            return {**name, SCORE: _SCORES[verdict], LABEL: verdict}


def _count(number: int | None) -> int | None:
    return None if number is None else amount(number)
