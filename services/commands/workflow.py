"""`answerbus workflow`: one timeline of everything that happened to a workflow."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from answerbus.attempt import Attempt
from answerbus.broker_time import moment
from answerbus.client.bus import Bus
from answerbus.control import ApprovalRequested, InputRequested
from answerbus.dead_letter import DeadLetter
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.request import Request
from answerbus.step import Step, ToolEnded
from answerbus.topics import APPROVALS, CONTROLS, STEPS, TOPICS
from services.command_line import AsJson, Config, bus_of, screen, stderr, stdout
from services.commands.terminal.timeline_rows import bars, timeline_rows
from services.console.views.waterfall import waterfall
from services.operators.adapters.picker import picking
from services.operators.adapters.reader import reading
from services.operators.records.stored import RecordPosition, Stored
from services.operators.runs.fold import RunFold
from services.operators.runs.rendering import as_data as run_data
from services.operators.runs.rendering import tree_of
from services.operators.runs.tree import RunNode
from services.operators.timeline.entry import TimelineEntry
from services.operators.timeline.folding import folds, without_numbers
from services.operators.timeline.rendering import as_data, line_of
from services.operators.timeline.timeline import may_concern, origin_of, timeline
from services.settings.settings import from_environment
from services.text.escaping import json_lines, plain_line

EXIT_UNKNOWN = 1

# Clients hash keys differently; workers forward a stray, and only its owner's partition is read.
UNREAD = (
    "An unread request or an invalid record may be in another partition: "
    "`answerbus doctor` counts unread requests, and `answerbus replay list` lists invalid records."
)

WorkflowId = Annotated[str, typer.Argument(metavar="ID", help="The workflow.")]
ShowContent = Annotated[
    bool, typer.Option("--show-content", help="Also contexts, answers and what the model said.")
]

OnlyTree = Annotated[bool, typer.Option("--tree", help="The runs of agents alone, as trees.")]


def workflow(
    workflow_id: WorkflowId,
    *,
    show_content: ShowContent = False,
    tree: OnlyTree = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Show everything that happened to a workflow, in one order. Exit code 1: nothing is kept."""
    settings = from_environment(config).kafka
    with stderr().status("reading"):
        records = asyncio.run(records_of(bus_of(settings), workflow_id))
    entries = timeline(workflow_id, records)
    runs = runs_of(entries)
    if tree and as_json:
        typer.echo(json_lines([run_data(run, show_content=show_content) for run in runs]))
    elif as_json:
        data = [as_data(entry, show_content=show_content) for entry in entries]
        typer.echo(json_lines(data))
    else:
        for run in runs:
            stdout().print(tree_of(run, show_content=show_content), soft_wrap=False)
        picture = None if tree else waterfall(entries, moment(int(time.time() * 1000)))
        terminal = screen() if stdout().is_terminal else stdout()
        width = terminal.width if terminal.is_terminal else None
        for line in bars(picture, width) if picture else ():
            terminal.print(line)
        _show(terminal, () if tree else entries, show_content=show_content)
    if tree and entries and not runs:
        stderr().print("No agent worked for this workflow.")
    if not entries:
        message = f"Nothing of the workflow {plain_line(workflow_id)} is kept. {UNREAD}"
        stderr().print(message, markup=False, soft_wrap=True)
        raise typer.Exit(EXIT_UNKNOWN)


async def records_of(bus: Bus, workflow_id: str) -> list[Stored]:
    """Records that may concern the workflow, and the first positions of forwarded copies."""
    topics = (*TOPICS, *await bus.present(STEPS, APPROVALS, CONTROLS))
    async with reading(bus, topics, workflow_id=workflow_id) as reader:
        found = [stored async for stored in reader.records() if may_concern(workflow_id, stored)]
    origins = {origin for stored in found if (origin := origin_of(stored))}
    return found + await _picked(bus, origins) if origins else found


def runs_of(entries: Iterable[TimelineEntry]) -> tuple[RunNode, ...]:
    """The trees of the runs among all that happened to a workflow."""
    fold = RunFold()
    for entry in entries:
        fold.take(entry.seen.event, entry.seen.at)
    return fold.runs()


async def _picked(bus: Bus, places: Iterable[RecordPosition]) -> list[Stored]:
    async with picking(bus) as picker:
        return await picker.pick_all(places)


def _show(console: Console, entries: Sequence[TimelineEntry], *, show_content: bool) -> None:
    """Each entry; with contents all of them, without them repeats are folded.

    In files and pipes each line stands for itself, with the id of its request.
    """
    if console.is_terminal:
        for row in timeline_rows(entries, contents if show_content else None):
            console.print(row, soft_wrap=False)
        return
    begin = entries[0].at if entries else None
    keys = [(entry.kind, entry.request_id, without_numbers(entry.text)) for entry in entries]
    for fold in folds(range(len(keys)) if show_content else keys):
        for entry in entries[fold.start : fold.start + fold.period]:
            console.print(line_of(entry, begin))
            if show_content:
                for content in contents(entry):
                    console.print(Padding(content, (0, 0, 0, 4)))
        if fold.count > 1:
            last = line_of(entries[fold.end - 1], begin)
            more = f"{fold.count - 1} times more, the last:"
            console.print(Text.assemble((f"  … the same {more} ", "dim"), last))


def contents(entry: TimelineEntry) -> Iterable[Text]:
    """A model's answer, and the body of the event."""
    if entry.said:
        yield Text(entry.said, "italic")
    content = _content_of(entry)
    if content is not None:
        yield Text(json_lines(content))


def _content_of(entry: TimelineEntry) -> JsonValue:
    match entry.seen.event:
        case Request(context=context):
            return {"context": context.model_dump(mode="json")}
        case Result(answer=answer) | Refusal(answer=answer):
            return {"answer": answer}
        case UnvalidatedResult(unvalidated_answer=answer):
            return {"unvalidated_answer": answer}
        case RetryRequest(prior=prior) | DeadLetter(prior=prior):
            return {"prior": [earlier.model_dump(mode="json") for earlier in prior]}
        case Step() as step:
            return step.model_dump(mode="json", include={"said", "calls"})
        case ApprovalRequested(args=args):
            return {"args": args}
        case InputRequested() as asked:
            return asked.model_dump(mode="json", include={"question", "json_schema", "to"})
        case ToolEnded(outcome=outcome):
            return outcome.model_dump(mode="json")
        case Attempt() as attempt:
            return attempt.model_dump(mode="json", exclude_none=True)
        case _:
            return None
