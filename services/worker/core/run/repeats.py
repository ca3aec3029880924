"""Whether a run makes a tool call again: one that succeeded, or has failed before."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from answerbus.call_outcome import (
    CallCancelled,
    CallOk,
    CallOutcome,
    InvalidArgs,
    NotRun,
    ResultTooLarge,
)
from answerbus.limits import (
    ANSWERED_MAX,
    CALL_FAILURES_MAX,
    REPEATS_MAX,
    REPEATS_REMARKED,
)
from answerbus.private.runs import RunStepRecord
from services.worker.core.run.run import ASK_PERSON, Run, ToolCall

# A small model follows an order with the form of the answer, and no advice (decision 0088).
REMARK = (
    "You made the same calls in {count} steps running, and they ended in the same way: you have "
    "these results already. Answer now with {end}."
)
FAILED_AGAIN = (
    "Calls failed again with the same arguments: `failures` says how often. After {max} failures "
    "such a call is not made any more. Call with other arguments, or answer with {end}."
)

CallKey = tuple[str, str]
"""A tool, and the digest of its arguments."""


def key_of(call: ToolCall) -> CallKey:
    """The key that calls of the same tool and arguments share."""
    return call.asked.tool, call.args_digest


def failed(call: ToolCall) -> bool:
    """Whether its end says that the same call will hardly succeed."""
    match call.outcome:
        case None | CallOk() | ResultTooLarge() | CallCancelled():
            return False
        case NotRun(which=which):
            return which == "repeats"
        case InvalidArgs() if not call.asked.args:
            return False  # they may have been left out, since they were too large
        case _:
            return True


def failures(run: Run, steps: Iterable[RunStepRecord]) -> Counter[CallKey]:
    """How often each call has failed in these steps."""
    made = (call for step in steps for call in run.made_calls_of(step))
    return Counter(key_of(call) for call in made if failed(call))


def closed_calls(run: Run) -> frozenset[CallKey]:
    """The calls that are not made any more; what another run did is none of them: see must_finish.

    They are known from the run's steps alone, and so the same after a restart.
    """
    known = failures(run, run.own_steps)
    return frozenset(key for key, count in known.items() if count >= CALL_FAILURES_MAX)


@dataclass(frozen=True, slots=True)
class EarlierCalls:
    """What is known of calls with the same arguments when a step asks for them.

    `closed` have failed too often; `answered` have a result in the step before, by their ids.
    """

    closed: frozenset[CallKey] = frozenset()
    answered: Mapping[CallKey, str] = field(default_factory=dict)


def earlier_calls(run: Run) -> EarlierCalls:
    """They are known from the run's steps alone, and so the same after a restart."""
    before = run.calls_of(run.steps[-1]) if run.steps else ()
    answered = {
        key_of(call): call.asked.call_id for call in before if _answers_equal_ones(run, call)
    }
    return EarlierCalls(closed_calls(run), answered)


def _answers_equal_ones(run: Run, call: ToolCall) -> bool:
    """Whether it succeeded, and its tool does not say that repeats are meant."""
    if not isinstance(call.outcome, CallOk):
        return False
    if call.asks_child:  # which answers also where it could not do its part
        value = call.outcome.value
        return not isinstance(value, dict) or value.get("success") is not False
    tool = run.tools.get(call.asked.tool)
    return call.asked.tool == ASK_PERSON or (tool is not None and not tool.card.repeatable)


def repeats_at(steps: tuple[RunStepRecord, ...]) -> int:
    """How many steps running, up to the last, made the same calls."""
    if not steps:
        return 0
    last = _made(steps[-1])
    return sum(1 for _ in takewhile(lambda step: _made(step) == last, reversed(steps)))


def remark_after(run: Run, step_count: int, end: str, failures_max: int) -> str | None:
    """The message to the model after so many repeated steps that learn nothing.

    A tool that is asked for the state of something may answer otherwise each time. `failures_max`
    is how often one of the step's calls has failed by then.
    """
    steps = run.steps[:step_count]
    last = steps[-1]
    same = takewhile(lambda step: _made(step) == _made(last), reversed(steps))
    count = sum(1 for _ in takewhile(lambda step: _ends(run, step) == _ends(run, last), same))
    if count >= REPEATS_REMARKED:
        return REMARK.format(count=count, end=end)
    if failures_max >= REPEATS_REMARKED:
        return FAILED_AGAIN.format(max=CALL_FAILURES_MAX, end=end)
    return None


def must_finish(run: Run) -> bool:
    """Whether the next step may call no tools: the run repeats itself, or has one step left.

    A run that goes on from another one may repeat what that one did: the tool may be mended.
    """
    is_last = len(run.steps) + 1 >= run.definition.steps_max
    return (
        is_last
        or repeats_at(run.own_steps) >= REPEATS_MAX
        or _calls_closed_ones(run)
        or _learns_nothing(run)
    )


def _learns_nothing(run: Run) -> bool:
    """Whether all calls of the last steps were answered from the results before them."""
    last = run.own_steps[-ANSWERED_MAX:]
    calls = [[*run.calls_of(step)] for step in last]
    return len(last) == ANSWERED_MAX and all(
        found and all(map(was_answered, found)) for found in calls
    )


def _calls_closed_ones(run: Run) -> bool:
    """Whether the last step did nothing but make calls that are not made any more."""
    if not run.own_steps:
        return False
    calls = [*run.calls_of(run.own_steps[-1])]
    known = failures(run, run.own_steps)
    return bool(calls) and all(known[key_of(call)] > CALL_FAILURES_MAX for call in calls)


def _ends(run: Run, step: RunStepRecord) -> list[CallOutcome | None]:
    ordered = sorted(run.calls_of(step), key=lambda call: (call.asked.tool, call.asked.args_digest))
    return [_end(call.outcome) for call in ordered]


def was_answered(call: ToolCall) -> bool:
    """Whether it has the result of an equal call of the step before."""
    return isinstance(call.outcome, CallOk) and call.outcome.same_as is not None


def _end(outcome: CallOutcome | None) -> CallOutcome | None:
    """Without whose result it is."""
    if isinstance(outcome, CallOk) and outcome.same_as is not None:
        return outcome.model_copy(update={"same_as": None})
    return outcome


def _made(step: RunStepRecord) -> list[tuple[str, str]]:
    return sorted((call.tool, call.args_digest) for call in step.calls)
