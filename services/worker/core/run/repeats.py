"""Whether a run makes the same tool calls again and again."""

from itertools import takewhile

from answerbus.limits import REPEATS_MAX, REPEATS_REMARKED
from answerbus.private.runs import RunStepRecord
from services.worker.core.run.run import Run

REMARK = (
    "You have made exactly these tool calls in {count} steps running. They will not give anything "
    "new: use what you have, try something else, or finish."
)


def repeats_at(steps: tuple[RunStepRecord, ...]) -> int:
    """How many steps running, up to the last, made the same calls."""
    if not steps:
        return 0
    last = _made(steps[-1])
    return sum(1 for _ in takewhile(lambda step: _made(step) == last, reversed(steps)))


def remark_after(steps: tuple[RunStepRecord, ...]) -> str | None:
    """What the model is told after the last of the steps, if it repeats itself."""
    count = repeats_at(steps)
    return REMARK.format(count=count) if count >= REPEATS_REMARKED else None


def must_finish(run: Run) -> bool:
    """Whether the next step may call no tools: the run repeats itself, or has one step left."""
    is_last = len(run.steps) + 1 >= run.definition.steps_max
    return is_last or repeats_at(run.steps) >= REPEATS_MAX


def _made(step: RunStepRecord) -> list[tuple[str, str]]:
    return sorted((call.tool, call.args_digest) for call in step.calls)
