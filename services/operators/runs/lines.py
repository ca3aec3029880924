"""The lines that an event adds to the tree of its run, for a log or a pipe; pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from answerbus.control import ApprovalRequested, ControlApplied
from answerbus.step import Step, ToolEnded
from services.operators.records.run_text import run_text
from services.operators.runs.run_words import approve_text, call_text
from services.operators.runs.tree import CallNode, RunNode
from services.text.escaping import plain_line

RunLine = Step | ToolEnded | ApprovalRequested | ControlApplied


def lines_of(event: RunLine, runs: Iterable[RunNode]) -> tuple[str, ...]:
    """With arguments, values and what the model said; `runs` have taken the event."""
    calls = dict(_calls(runs))
    match event:
        case Step():
            texts = (plain_line(f'  said "{text}"') for text in event.said)
            called = (_line(calls, call.call_id, call.tool) for call in event.calls)
            return (f"step {event.n}", *texts, *called)
        case ToolEnded():
            return (_line(calls, event.call_id, run_text(event)),)
        case ApprovalRequested():
            line = _line(calls, event.call_id, run_text(event))
            return (line, f"    {approve_text(event.call_id)}")
        case ControlApplied():
            return (f"  {run_text(event)}",)
        case _:
            assert_never(event)


def _line(calls: Mapping[str, CallNode], call_id: str, otherwise: str) -> str:
    found = calls.get(call_id)
    return f"  {call_text(found, show_content=True) if found else otherwise}"


def _calls(runs: Iterable[RunNode]) -> Iterator[tuple[str, CallNode]]:
    for run in runs:
        for call in run.calls:
            yield call.call_id, call
            yield from _calls(call.children)
