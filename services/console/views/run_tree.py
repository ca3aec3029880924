"""The trees of a workflow's runs as lines of a page, and what can be done there; pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from services.operators.records.decoded import DecodedRecord
from services.operators.runs.fold import RunFold
from services.operators.runs.run_words import call_text, run_text, step_text
from services.operators.runs.tree import RunNode


@dataclass(frozen=True, slots=True)
class RunLine:
    """One node; `call_id` if it is a call that awaits approval, `open_id` if a run is open."""

    depth: int
    kind: str
    text: str
    call_id: str | None = None
    args_digest: str | None = None
    open_id: str | None = None


def trees(records: Iterable[DecodedRecord], *, operator: bool) -> tuple[tuple[RunLine, ...], ...]:
    """Of each run that no other run asked; arguments and texts are for operators."""
    fold = RunFold()
    for seen in records:
        fold.take(seen.event, seen.at)
    return tuple(tuple(_lines(run, 0, operator=operator)) for run in fold.runs())


def _lines(run: RunNode, depth: int, *, operator: bool) -> Iterator[RunLine]:
    open_id = None if run.state == "ended" else run.request_id
    yield RunLine(depth, "run", run_text(run), open_id=open_id)
    for step in run.steps:
        yield RunLine(depth + 1, "step", step_text(step, show_content=operator))
        for call in step.calls:
            text = call_text(call, show_content=operator)
            asked = call.approval if call.status == "awaits_approval" else None
            digest = asked.args_digest if asked else None
            call_id = call.call_id if asked else None
            yield RunLine(depth + 2, "call", text, call_id, digest)
            for child in call.children:
                yield from _lines(child, depth + 3, operator=operator)
