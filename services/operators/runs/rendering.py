"""The tree of a run on a screen, and as JSON data for programs; pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from pydantic_core import to_jsonable_python
from rich.text import Text
from rich.tree import Tree

from answerbus.control import ApprovalRequested, ControlApplied, InputRequested
from answerbus.step import Step, ToolEnded
from services.operators.records.run_text import run_text as event_text
from services.operators.runs.run_words import call_text, how_text, run_text, step_text
from services.operators.runs.tree import CallNode, RunNode, StepNode
from services.text.escaping import plain_line

_STYLES = {
    "working": "cyan",
    "waiting": "cyan",
    "awaits_approval": "yellow",
    "awaits_input": "yellow",
    "ended": "bold",
}
RunLine = Step | ToolEnded | ApprovalRequested | InputRequested | ControlApplied


def tree_of(run: RunNode, *, show_content: bool) -> Tree:
    """For people; arguments, values and what the model said only with `show_content`."""
    return _below(Tree(Text(run_text(run), _STYLES[run.state])), run, show_content=show_content)


def as_data(run: RunNode, *, show_content: bool) -> Mapping[str, object]:
    cancel = run.cancel
    return {
        "request_id": run.request_id,
        "agent": run.agent,
        "state": run.state,
        "began": to_jsonable_python(run.began),
        "since": to_jsonable_python(run.since),
        "attempts": run.own.attempts,
        "spent": {"own": run.own.model_dump(), "whole": run.whole.model_dump()},
        "account": run.account and run.account.model_dump(mode="json"),
        "outcome": run.ended_as,
        "cancelled_by": cancel and cancel.by,
        "steps": [_step_data(step, show_content=show_content) for step in run.steps],
    }


def _below(tree: Tree, run: RunNode, *, show_content: bool) -> Tree:
    for step in run.steps:
        branch = tree.add(Text(step_text(step, show_content=show_content)))
        for call in step.calls:
            style = "yellow" if call.awaits else ""
            leaf = branch.add(Text(call_text(call, show_content=show_content), style))
            if call.awaits:
                leaf.add(Text(how_text(call.awaits), "dim"))
            for child in call.children:
                line = Text(run_text(child), _STYLES[child.state])
                _below(leaf.add(line), child, show_content=show_content)
    return tree


def _step_data(step: StepNode, *, show_content: bool) -> Mapping[str, object]:
    return {
        "n": step.n,
        "attempt": step.attempt if step.is_asked else None,
        "composed": step.composed,
        "chosen": step.chosen,
        "at": to_jsonable_python(step.at),
        "took_ms": step.took_ms,
        "spent": step.spent.model_dump(),
        **({"said": list(step.said)} if show_content else {}),
        "calls": [_call_data(call, show_content=show_content) for call in step.calls],
    }


def _call_data(call: CallNode, *, show_content: bool) -> Mapping[str, object]:
    decision = call.decision
    shown: dict[str, object] = {
        "call_id": call.call_id,
        "tool": call.tool,
        "status": call.status,
        "outcome": call.outcome and call.outcome.kind,
        "took_ms": call.took_ms,
        "decision": decision and decision.effect,
        "decided_by": decision and decision.control.by,
        "policy": call.policy and call.policy.model_dump(mode="json"),
        "edited_by": call.edited and call.edited.by,
        "children": [as_data(child, show_content=show_content) for child in call.children],
    }
    if show_content:
        shown["args"] = to_jsonable_python(call.args)
        shown["edited_args"] = to_jsonable_python(call.edited_args)
        shown["ended"] = call.outcome and call.outcome.model_dump(mode="json")
    return shown


def lines_of(event: RunLine, runs: Iterable[RunNode]) -> tuple[str, ...]:
    """With arguments, values and what the model said; `runs` have taken the event."""
    calls = dict(_calls(runs))
    match event:
        case Step():
            texts = (plain_line(f'  said "{text}"') for text in event.said)
            called = (_line(calls, call.call_id, call.tool) for call in event.calls)
            return (f"step {event.n}", *texts, *called)
        case ToolEnded():
            return (_line(calls, event.call_id, event_text(event)),)
        case ApprovalRequested() | InputRequested():
            line = _line(calls, event.call_id, event_text(event))
            return (line, f"    {how_text(event)}")
        case ControlApplied():
            return (f"  {event_text(event)}",)
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
