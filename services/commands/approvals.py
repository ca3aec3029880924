"""`answerbus approvals`: lists the tool calls that await approval, and records decisions."""

import asyncio
import sys
from collections.abc import Awaitable, Sequence
from typing import Annotated, Literal, NoReturn, assert_never

import typer

from answerbus.client import Client, PublishedControl
from answerbus.control import ApprovalRequested, ControlApplied
from answerbus.topics import STEPS
from services.command_line import AsJson, Config, bus_of, stderr, stdout
from services.commands.controlling import EXIT_NOT_DONE, controlled, not_read
from services.commands.operator import By, Reason, Yes, confirm, now, operator
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from services.operators.runs.open_approvals import (
    APPROVAL_AGE_MAX,
    OpenApprovals,
    may_concern_approvals,
)
from services.operators.runs.run_words import again_lines, approval_lines, args_lines, show_text
from services.operators.runs.shown_args import DIGEST_CHARS, is_intact, shown_args
from services.settings.settings import KafkaSettings, from_environment
from services.text.escaping import json_lines, plain_line

app = typer.Typer(
    help="List, approve and deny the tool calls that await a person.", no_args_is_help=True
)

CallId = Annotated[str, typer.Argument(metavar="CALL", help="The id of the call, as `list` says.")]
Workflow = Annotated[
    str | None, typer.Option("--workflow", metavar="ID", help="Look in this one alone: faster.")
]
Digest = Annotated[
    str | None,
    typer.Option("--digest", metavar="SHA256", help="Of the arguments; its beginning suffices."),
]
Decision = Literal["approved", "denied"]


@app.command("list")
def list_approvals(
    *, workflow: Workflow = None, as_json: AsJson = False, config: Config = None
) -> None:
    """Show the calls that await approval, with their arguments, the oldest first."""
    settings = from_environment(config).kafka
    waiting = asyncio.run(_load(settings, workflow)).waiting(workflow, now())
    if as_json:
        typer.echo(json_lines([requested.model_dump(mode="json") for requested in waiting]))
        return
    for requested in waiting:
        first, *rest = approval_lines(requested)
        stdout().print(first, style="bold", markup=False)
        for line in rest:
            stdout().print(f"  {line}", markup=False)
    if not waiting:
        stderr().print("No call awaits approval.")


@app.command("show")
def show_approval(call: CallId, *, workflow: Workflow = None, config: Config = None) -> None:
    """Print the arguments of a call that awaits approval whole, and their digest."""
    approvals = asyncio.run(_load(from_environment(config).kafka, workflow))
    requested = _the_one(call, approvals.named(call, workflow, now()))
    for line in args_lines(requested, chars_max=None):
        stdout().print(line, markup=False)
    stdout().print(shown_args(requested).digest, style="bold", markup=False)


def _command(name: str, decision: Decision, summary: str) -> None:
    @app.command(name=name, help=f"{summary} Exit code 1: it awaits nothing.")
    def decide(
        call: CallId,
        *,
        reason: Reason,
        workflow: Workflow = None,
        digest: Digest = None,
        by: By = None,
        yes: Yes = False,
        as_json: AsJson = False,
        config: Config = None,
    ) -> None:
        settings, who = from_environment(config).kafka, operator(by)
        approvals = asyncio.run(_load(settings, workflow))
        requested = _the_one(call, approvals.named(call, workflow, now()))
        _show(requested)
        if decision == "approved":
            check(requested, digest, may_ask=not yes)
        if not yes:
            word = "Approve" if decision == "approved" else "Deny"
            confirm(f"{word} this call of {plain_line(requested.tool)} as {plain_line(who)}?")
        _decide(settings, decision, requested, who, reason, as_json=as_json)


_command("approve", "approved", "Let the call run, once, with the arguments it has now.")
_command("deny", "denied", "Refuse the call; its run sees that, and goes on.")


def _the_one(call_id: str, found: Sequence[ApprovalRequested]) -> ApprovalRequested:
    """The call that an id names; where it names calls of several workflows, none is chosen."""
    if len(found) == 1:
        return found[0]
    message = (
        f"{len(found)} calls have the id {call_id}: name one with --workflow."
        if found
        else f"No call {call_id} awaits approval."
    )
    stderr().print(plain_line(message), style="red", markup=False)
    for one in found:
        stderr().print(plain_line(f"  --workflow {one.workflow_id}: {one.tool}"), markup=False)
    raise typer.Exit(EXIT_NOT_DONE)


def _decide(
    settings: KafkaSettings,
    decision: Decision,
    requested: ApprovalRequested,
    who: str,
    reason: str,
    *,
    as_json: bool,
) -> None:
    def send(client: Client) -> Awaitable[PublishedControl]:
        say = client.approve if decision == "approved" else client.deny
        return say(requested, by=who, reason=reason)

    published, applied = asyncio.run(controlled(settings, send))
    if as_json:
        place = {"partition": published.partition, "offset": published.offset}
        effect = applied and applied.effect
        typer.echo(json_lines({"call_id": requested.call_id, "effect": effect, **place}))
    else:
        stdout().print(plain_line(_effect_text(requested, applied)), markup=False)
    if applied is None or applied.effect != decision:
        raise typer.Exit(EXIT_NOT_DONE)


def _show(requested: ApprovalRequested) -> None:
    console = stderr()
    about = f"{requested.tool}, call {requested.call_id} of workflow {requested.workflow_id}, with"
    console.print(plain_line(about), markup=False)
    for line in (*again_lines(requested), *args_lines(requested)):
        console.print(line, markup=False)


def check(requested: ApprovalRequested, digest: str | None, *, may_ask: bool) -> None:
    """A person approves only what was shown: for arguments that are cut, by their digest.

    Raises typer.Exit.
    """
    args = shown_args(requested)
    if not is_intact(requested):
        _refuse("The arguments of this call are not those of its digest: do not approve it.")
    if args.is_cut and digest is None and may_ask and sys.stdin.isatty():
        digest = typer.prompt(f"The first {DIGEST_CHARS} characters of the digest", err=True)
    if args.is_cut and digest is None:
        _refuse(
            "The arguments are cut. See them whole with "
            f"`{show_text(requested)}`, and approve them with --digest."
        )
    if digest is not None and not args.is_typed(digest):
        _refuse(f"The digest of these arguments does not begin so: give {DIGEST_CHARS} characters.")


def _refuse(message: str) -> NoReturn:
    stderr().print(plain_line(message), style="red", markup=False)
    raise typer.Exit(EXIT_NOT_DONE)


def _effect_text(requested: ApprovalRequested, applied: ControlApplied | None) -> str:
    if applied is None:
        return not_read(f"The decision about {requested.call_id}", requested.workflow_id)
    match applied.effect:
        case "approved" | "denied":
            return f"The call {requested.call_id} is {applied.effect}."
        case "nothing" | "cancelled" | "remembered":
            return f"The call {requested.call_id} was decided before, or its run is over."
        case _:
            assert_never(applied.effect)


async def _load(settings: KafkaSettings, workflow_id: str | None) -> OpenApprovals:
    found, bus = OpenApprovals(), bus_of(settings)
    since = now() - APPROVAL_AGE_MAX
    async with reading(bus, (STEPS,), workflow_id=workflow_id, since=since) as reader:
        async for batch in reader.to_end():
            for stored in filter(may_concern_approvals, batch):
                found.take(decoded(stored).event)
    return found
