"""Whether a run makes the same tool calls again and again."""

from itertools import takewhile

from answerbus.call_outcome import CallOutcome
from answerbus.limits import REPEATS_MAX, REPEATS_REMARKED
from answerbus.private.runs import RunStepRecord
from services.worker.core.run.run import Run

# A small model follows an order with the form of the answer, and no advice (decision 0088).
REMARK = (
    "You made the same calls in {count} steps running, and they ended in the same way: you have "
    "these results already. Answer now with {end}."
)


def repeats_at(steps: tuple[RunStepRecord, ...]) -> int:
    """How many steps running, up to the last, made the same calls."""
    if not steps:
        return 0
    last = _made(steps[-1])
    return sum(1 for _ in takewhile(lambda step: _made(step) == last, reversed(steps)))


def remark_after(run: Run, step_count: int, end: str) -> str | None:
    """What the model is told after so many steps, if it repeats itself and learns nothing by it.

    A tool that is asked for the state of something may answer otherwise each time.
    """
    steps = run.steps[:step_count]
    last = steps[-1]
    same = takewhile(lambda step: _made(step) == _made(last), reversed(steps))
    count = sum(1 for _ in takewhile(lambda step: _ends(run, step) == _ends(run, last), same))
    return REMARK.format(count=count, end=end) if count >= REPEATS_REMARKED else None


def must_finish(run: Run) -> bool:
    """Whether the next step may call no tools: the run repeats itself, or has one step left."""
    is_last = len(run.steps) + 1 >= run.definition.steps_max
    return is_last or repeats_at(run.steps) >= REPEATS_MAX


def _ends(run: Run, step: RunStepRecord) -> list[CallOutcome | None]:
    ordered = sorted(run.calls_of(step), key=lambda call: (call.asked.tool, call.asked.args_digest))
    return [call.outcome for call in ordered]


def _made(step: RunStepRecord) -> list[tuple[str, str]]:
    return sorted((call.tool, call.args_digest) for call in step.calls)
