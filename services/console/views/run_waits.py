"""What a run waited for between its calls of the model, after each of its steps; pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType

from answerbus.attempt import Attempt
from services.console.views.stretches import MS, BarKind, Stretch
from services.console.views.units import duration
from services.operators.records.within_limits import moved
from services.operators.runs.tree import CallNode, RunNode, StepNode

# Shorter waits are no row; by the share there are at most 20 of a run.
SHOWN_MIN = timedelta(seconds=1)
SHOWN_SHARE = 0.05  # of the time of the run
_FAILED = frozenset({"retry", "released", "unknown"})  # attempts after which there is another
_AFTER: Mapping[str, str] = MappingProxyType(
    {"throttled": "throttled by the provider", "unavailable": "provider away"}
)
_Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class _Called:
    """A call of the model, and what the run waits for if it failed."""

    begin: datetime
    end: datetime
    pause: str | None


def waits(run: RunNode, now: datetime) -> Mapping[int, Sequence[Stretch]]:
    """By the number of the step before them; 0 is before the first."""
    if run.began is None:
        return {}
    ended = max(run.began, run.over or now)
    found = defaultdict[int, list[Stretch]](list)
    for begin, end, last in _gaps(run, run.began, ended):
        step = next((one for one in reversed(run.steps) if one.at <= begin), None)
        found[step.n if step else 0] += _parts(begin, end, step, last)
    least = max(SHOWN_MIN, (ended - run.began) * SHOWN_SHARE)
    return {n: parts for n, parts in found.items() if sum(map(_took, parts), timedelta()) >= least}


def wait_text(parts: Iterable[Stretch]) -> str:
    """Such as `waited 1 min 25 s: approval 1 min, tools 25 s`."""
    took = defaultdict[str, timedelta](timedelta)
    for part in parts:
        took[part.label] += _took(part)
    whole = duration(sum(took.values(), timedelta()) / MS)
    each = ", ".join(f"{label} {duration(one / MS)}" for label, one in took.items())
    return f"waited {whole}: {each}" if len(took) > 1 else f"waited {whole}: {', '.join(took)}"


def _gaps(
    run: RunNode, began: datetime, ended: datetime
) -> Iterator[tuple[datetime, datetime, _Called | None]]:
    """The times in which no call of the model was made, each with the call before it."""
    begin, last = began, None
    for called in sorted(_called(run), key=lambda one: one.begin):
        if (until := min(called.begin, ended)) > begin:
            yield begin, until, last
        begin, last = max(begin, called.end), called
    if ended > begin:
        yield begin, ended, last


def _called(run: RunNode) -> Iterator[_Called]:
    """Of steps, by the times of the steps; of the attempts between them, by their own."""
    steps = [step for step in run.steps if step.is_asked]
    for step in steps:
        yield _Called(moved(step.at, -(step.took_ms or 0)), step.at, None)
    numbers = {step.attempt for step in steps}
    for attempt in run.attempts:
        if attempt.attempt not in numbers:
            end = moved(attempt.started_at, attempt.duration_ms or 0)
            yield _Called(attempt.started_at, end, _pause(attempt))


def _pause(attempt: Attempt) -> str | None:
    if attempt.outcome not in _FAILED:
        return None
    kind = attempt.failure.kind if attempt.failure else ""
    return _AFTER.get(kind, "back-off")


def _parts(
    begin: datetime, end: datetime, step: StepNode | None, last: _Called | None
) -> Iterator[Stretch]:
    """The time divided by what was waited for; people come before tools, both before the rest."""
    calls = step.calls if step else ()
    people = [span for call in calls for span in _approval(call, end)]
    tools = [span for call in calls for span in _running(call, step, end)] if step else []
    ends = {at for span in (*people, *tools) for at in span if begin < at < end}
    parts = list[Stretch]()
    for left, right in pairwise(sorted({begin, end, *ends})):
        kind, label = _reason(left, people, tools, last)
        goes_on = bool(parts) and (parts[-1].kind, parts[-1].label) == (kind, label)
        parts.append(Stretch(kind, parts.pop().begin if goes_on else left, right, label))
    yield from parts


def _reason(
    at: datetime, people: Sequence[_Span], tools: Sequence[_Span], last: _Called | None
) -> tuple[BarKind, str]:
    if any(begin <= at < end for begin, end in people):
        return "approval", "approval"
    if any(begin <= at < end for begin, end in tools):
        return "tools", "tools"
    if last is not None and last.pause is not None:
        return "backoff", last.pause
    return "waiting", "its turn"


def _approval(call: CallNode, end: datetime) -> Iterator[_Span]:
    if call.approval is not None:
        decided = call.decision.at if call.decision is not None else None
        yield call.approval.at, decided or call.ended_at or end


def _running(call: CallNode, step: StepNode, end: datetime) -> Iterator[_Span]:
    if call.approval is None:
        yield step.at, call.ended_at or end
    elif call.decision is not None:
        yield call.decision.at, call.ended_at or end


def _took(part: Stretch) -> timedelta:
    return part.end - part.begin
