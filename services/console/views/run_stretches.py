"""The time of a run, a step and a tool call, divided into stretches; pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import assert_never

from answerbus.call_outcome import CallOutcome
from services.console.views.stretches import BarKind, Stretch
from services.console.views.units import duration
from services.operators.records.within_limits import moved
from services.operators.runs.run_words import outcome_text
from services.operators.runs.tree import CallNode, RunNode, StepNode

_MS = timedelta(milliseconds=1)
_OPEN = MappingProxyType(
    {"called": "runs", "waiting": "queued", "awaits_approval": "awaits approval"}
)


def run_stretches(run: RunNode, now: datetime) -> Iterator[Stretch]:
    """From its beginning to its outcome, or until now."""
    if run.began is None:
        return
    end = run.since if run.terminal is not None and run.since is not None else now
    kind: BarKind = run.terminal.kind if run.terminal is not None else "running"
    message = kind.replace("_", " ") if run.terminal is not None else "open"
    yield _stretch(kind, run.began, end, f"{run.request_id}: {message}")


def step_stretches(step: StepNode) -> Iterator[Stretch]:
    """The attempt whose answer it is."""
    begin = moved(step.at, -(step.took_ms or 0))
    which = f"attempt {step.attempt}" if step.is_asked else "proposals"
    yield _stretch("step", begin, step.at, f"step {step.n}, {which}")


def call_stretches(
    call: CallNode, step: StepNode, run: RunNode, now: datetime
) -> Iterator[Stretch]:
    """It waits for a person if it must, and then runs until it ends."""
    over = run.since if run.terminal is not None else None
    end, begin = call.ended_at or over or now, step.at
    if call.approval is not None:
        decided = call.decision.at if call.decision is not None else end
        yield _stretch("approval", begin, decided, f"{call.tool}: waits for approval")
        begin = decided
        if call.decision is None:
            return
    if call.outcome is None:
        message = "ended" if over else _OPEN.get(call.status, call.status)
        yield _stretch("released" if over else "running", begin, end, f"{call.tool}: {message}")
    else:
        message = outcome_text(call.outcome, show_content=False)
        yield _stretch(_kind(call.outcome), begin, end, f"{call.tool}: {message}")


def _stretch(kind: BarKind, begin: datetime, end: datetime, label: str) -> Stretch:
    """Clocks may disagree: no stretch ends before it begins."""
    end = max(begin, end)
    return Stretch(kind, begin, end, f"{label}, {duration((end - begin) / _MS)}")


def _kind(outcome: CallOutcome) -> BarKind:
    """By what it means: done, tried in vain, turned down."""
    match outcome.kind:
        case "ok":
            return "result"
        case "declined" | "denied" | "cancelled":
            return "refusal"
        case "dead_letter" | "expired" | "timed_out":
            return "dead_letter"
        case "error" | "unknown_tool" | "invalid_args" | "too_large" | "not_run":
            return "failed"
        case other:
            assert_never(other)
