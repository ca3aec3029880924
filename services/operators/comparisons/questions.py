"""What is asked again of one request: itself, or each step of its run after those before; pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from answerbus.budget import Usage
from answerbus.compared import AnswerOutcome, ComparedAnswer
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import decode
from answerbus.event import AnyOutcome
from answerbus.limits import MODEL_CHARS_MAX, NAME_CHARS_MAX, REASON_BYTES_MAX
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.request import Request
from answerbus.resumed_run import ResumedRun, ResumedStep
from answerbus.step import Step, ToolEnded
from answerbus.wire import clip
from services.operators.comparisons.sample import Sampled
from services.operators.dead_letters.past_run import resumed_step
from services.operators.explain import failure_text
from services.operators.records.event_summary import AttemptSummary
from services.operators.records.stored import Stored

_NOTHING_DIGEST = "sha256:" + "0" * 64  # the chain of a run that is never written
_INVALID = frozenset({"invalid", "malformed", "truncated"})


@dataclass(frozen=True, slots=True)
class RecordedQuestion:
    """A request as it was asked, or the `step` of a run with the steps before it as its past."""

    request: Request
    recorded: ComparedAnswer
    step: int | None = None


@dataclass(frozen=True, slots=True)
class NotAsked:
    """Why a request of the sample cannot be asked again, for people."""

    why: str


GONE = NotAsked("its request is no longer kept, or was asked by a run and never published")
UNREADABLE = NotAsked("its records cannot be read by this version")
COMPOSED = NotAsked("its agent composes answers of others, which are not compared")
CUT = NotAsked("it has more steps or attempts than are compared")
WITHOUT_ENDS = NotAsked("the ends of its tool calls are no longer kept")


def questions_of(
    sampled: Sampled, records: Sequence[Stored]
) -> Sequence[RecordedQuestion] | NotAsked:
    """`records` are its request, its outcome and its steps, as far as they are still there."""
    events = [decode(one.value, one.headers) for one in records]
    outcome = next((event for event in events if isinstance(event, AnyOutcome)), None)
    request = next((event for event in events if isinstance(event, Request)), None)
    if isinstance(outcome, DeadLetter):
        request = outcome.request or request
    if request is None:
        return GONE
    if outcome is None:
        return UNREADABLE
    if request.agent is None:
        return [RecordedQuestion(request, _recorded(outcome, sampled.attempts, 1))]
    if sampled.is_cut:
        return CUT
    steps = sorted((one for one in events if isinstance(one, Step)), key=lambda step: step.n)
    ends = {one.call_id: one for one in events if isinstance(one, ToolEnded)}
    return _of_run(request, outcome, steps, ends, sampled.attempts)


def _of_run(
    request: Request,
    outcome: AnyOutcome,
    steps: Sequence[Step],
    ends: Mapping[str, ToolEnded],
    attempts: Mapping[int, AttemptSummary],
) -> Sequence[RecordedQuestion] | NotAsked:
    if any(step.composed for step in steps):
        return COMPOSED
    counted = outcome.run.steps if outcome.run else 0
    called = {call.call_id for step in steps for call in step.calls}
    if len(steps) != counted or not called <= ends.keys():
        return WITHOUT_ENDS
    past = [resumed_step(step, ends) for step in steps]
    firsts = [1, *(step.attempt + 1 for step in steps)]
    found = [
        RecordedQuestion(
            _after(request, past[:number]),
            _recorded_step(step, attempts, firsts[number]),
            number + 1,
        )
        for number, step in enumerate(steps)
    ]
    last = RecordedQuestion(
        _after(request, past), _recorded(outcome, attempts, firsts[-1]), len(steps) + 1
    )
    return [*found, last]


def _after(request: Request, past: Sequence[ResumedStep]) -> Request:
    """The request as if it were to go on after these steps of its own."""
    before = request.resumed
    steps = (*(before.steps if before else ()), *past)
    if not steps:
        return request
    number = max(1, len(steps))
    resumed = ResumedRun(
        request_id=request.request_id, steps=steps, previous=_NOTHING_DIGEST, number=number
    )
    return request.model_copy(update={"resumed": resumed})


def step_answer(calls: Iterable[tuple[str, JsonValue]]) -> JsonValue:
    """What a step comes to: its calls in their order. What was said beside them is no answer."""
    return {"calls": [{"tool": tool, "args": args} for tool, args in calls]}


def _recorded_step(
    step: Step, attempts: Mapping[int, AttemptSummary], first: int
) -> ComparedAnswer:
    answer = step_answer([(call.tool, call.args) for call in step.calls])
    return _with_answer(attempts.get(first), answer, "answered")


def _recorded(
    outcome: AnyOutcome, attempts: Mapping[int, AttemptSummary], first: int
) -> ComparedAnswer:
    match outcome:
        case Result():
            return _with_answer(attempts.get(first), outcome.answer, "answered")
        case UnvalidatedResult():
            return _with_answer(attempts.get(first), None, "invalid")
        case Refusal():
            return _with_answer(attempts.get(first), None, "refused", outcome.reason)
        case DeadLetter():
            why = outcome.cause.kind.replace("_", " ")
            if outcome.prior:
                why = failure_text(outcome.prior[-1].failure)
            return _with_answer(attempts.get(first), None, "invalid", why)
        case _:
            assert_never(outcome)


def _with_answer(
    attempt: AttemptSummary | None, answer: JsonValue, ended: AnswerOutcome, why: str = ""
) -> ComparedAnswer:
    """The published answer, beside its first call, if that is still kept."""
    if attempt is None:
        return ComparedAnswer(outcome=ended, why=clip(why, REASON_BYTES_MAX), answer=answer)
    usage = attempt.usage
    return ComparedAnswer(
        outcome=_first_outcome(attempt),
        profile=attempt.model.profile[:NAME_CHARS_MAX] if attempt.model else None,
        model=attempt.model.name[:MODEL_CHARS_MAX] if attempt.model else None,
        why=clip(why, REASON_BYTES_MAX),
        answer=answer,
        usage=Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            micro_usd=usage.micro_usd,
        ),
        duration_ms=attempt.duration_ms,
    )


def _first_outcome(attempt: AttemptSummary) -> AnswerOutcome:
    failure = attempt.failure.kind if attempt.failure else None
    match attempt.outcome:
        case "result" | "step":
            return "answered"
        case "refusal":
            return "refused"
        case "unvalidated_result":
            return "invalid"
        case _ if failure in _INVALID:
            return "invalid"
        case _:
            return "refused" if failure == "refused" else "failed"
