"""`answerbus approvals`: lists the tool calls that await a person, and records what they say."""

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, assert_never

import typer
from pydantic import JsonValue

from answerbus import json_text
from answerbus.client import Client, PublishedControl
from answerbus.control import Approval, ApprovalRequested, ControlApplied, InputRequested
from answerbus.edited_args import small_json
from answerbus.explain import problems_text
from answerbus.limits import EDITED_ARGS_VALUES_MAX, TOOL_ARGS_BYTES_MAX, TOOL_RESULT_VALUES_MAX
from answerbus.topics import STEPS
from services.command_line import EXIT_NOT_DONE, AsJson, Config, bus_of, refuse, stderr, stdout
from services.commands.controlling import controlled, not_read
from services.commands.editor import EDITOR_DEFAULT, Editor, edited
from services.operator_options import By, Reason, Yes, confirm, now, operator
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from services.operators.runs.open_approvals import (
    APPROVAL_AGE_MAX,
    OpenApprovals,
    may_concern_approvals,
)
from services.operators.runs.run_words import (
    again_lines,
    answer_text,
    args_lines,
    awaited_lines,
    question_lines,
    show_text,
)
from services.operators.runs.shown_args import DIGEST_CHARS, is_intact, shown_args
from services.operators.runs.tree import Awaited
from services.settings.settings import KafkaSettings, from_environment
from services.text.digest import canonical_digest
from services.text.escaping import json_lines, plain_line
from services.worker.core.run.ask_person import problems_of_answer

app = typer.Typer(
    help="List, approve and deny tool calls, and answer questions of runs.", no_args_is_help=True
)

CallId = Annotated[str, typer.Argument(metavar="CALL", help="The id of the call, as `list` says.")]
Workflow = Annotated[
    str | None,
    typer.Option("--workflow", metavar="ID", help="Look in this workflow alone: faster."),
]
Digest = Annotated[
    str | None,
    typer.Option("--digest", metavar="SHA256", help="The arguments' digest, or its beginning."),
]
Edit = Annotated[bool, typer.Option("--edit", help="Change the arguments in an editor first.")]
Args = Annotated[
    str | None, typer.Option("--args", metavar="JSON", help="Other arguments in their place.")
]
Value = Annotated[str, typer.Option("--value", metavar="JSON", help="The answer, as JSON.")]
DONE = ("approved", "denied", "answered")
Send = Callable[[Client], Awaitable[PublishedControl]]


@app.command("list")
def list_approvals(
    *, workflow: Workflow = None, as_json: AsJson = False, config: Config = None
) -> None:
    """Show the calls that await approval, and questions, the oldest first."""
    settings = from_environment(config).kafka
    waiting = asyncio.run(_load(settings, workflow)).waiting(workflow, now())
    if as_json:
        typer.echo(json_lines([requested.model_dump(mode="json") for requested in waiting]))
        return
    for requested in waiting:
        first, *rest = awaited_lines(requested)
        stdout().print(first, style="bold", markup=False)
        for line in rest:
            stdout().print(f"  {line}", markup=False)
    if not waiting:
        stderr().print("No call awaits a person.")


@app.command("show")
def show_approval(call: CallId, *, workflow: Workflow = None, config: Config = None) -> None:
    """Print the arguments of a call that awaits approval whole, and their digest."""
    requested = _asked_approval(from_environment(config).kafka, call, workflow)
    for line in args_lines(requested, chars_max=None):
        stdout().print(line, markup=False)
    stdout().print(shown_args(requested).digest, style="bold", markup=False)


@app.command("approve")
def approve(
    call: CallId,
    *,
    reason: Reason,
    edit: Edit = False,
    editor: Editor = EDITOR_DEFAULT,
    args: Args = None,
    workflow: Workflow = None,
    digest: Digest = None,
    by: By = None,
    yes: Yes = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Let the call run, once, with its arguments or with others. Exit code 1: not approved."""
    settings, who = from_environment(config).kafka, operator(by)
    requested = _asked_approval(settings, call, workflow)
    _show(requested)
    check(requested, digest, may_ask=not yes)
    changed = changed_args(requested, args, editor if edit else None)
    how = "with the changed arguments " if changed is not None else ""
    if not yes:
        confirm(f"Approve this call of {plain_line(requested.tool)} {how}as {plain_line(who)}?")

    def send(client: Client) -> Awaitable[PublishedControl]:
        return client.approve(requested, by=who, reason=reason, args=changed)

    _publish(settings, requested, send, as_json=as_json)


@app.command("deny")
def deny(
    call: CallId,
    *,
    reason: Reason,
    workflow: Workflow = None,
    by: By = None,
    yes: Yes = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Refuse the call; its run sees that, and goes on. Exit code 1: it awaits nothing."""
    settings, who = from_environment(config).kafka, operator(by)
    requested = _asked_approval(settings, call, workflow)
    _show(requested)
    if not yes:
        confirm(f"Deny this call of {plain_line(requested.tool)} as {plain_line(who)}?")

    def send(client: Client) -> Awaitable[PublishedControl]:
        return client.deny(requested, by=who, reason=reason)

    _publish(settings, requested, send, as_json=as_json)


@app.command("answer")
def answer(
    call: CallId,
    value: Value,
    *,
    workflow: Workflow = None,
    by: By = None,
    yes: Yes = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Answer a question of a run; null declines to answer that of a tool.

    Exit code 1: the answer does not fit, or comes too late.
    """
    settings, who = from_environment(config).kafka, operator(by)
    given = json_of(value, "--value")
    asked = _asked(settings, call, workflow)
    if not isinstance(asked, InputRequested):
        refuse(f"The call {call} asks for approval: `answerbus approvals approve` or `deny`.")
    for line in question_lines(asked)[:-1]:
        stderr().print(line, markup=False)
    is_declined = asked.tool is not None and given is None
    if not is_declined and (problems := problems_of_answer(asked.json_schema, given)):
        refuse(f"The answer does not fit: {problems_text(problems)}")
    if not yes:
        confirm(f"Answer it as {plain_line(who)}?")
    _publish(settings, asked, lambda client: client.answer(asked, given, by=who), as_json=as_json)


def json_of(text: str, what: str, values_max: int = TOOL_RESULT_VALUES_MAX) -> JsonValue:
    """A value that a person wrote. Raises typer.BadParameter."""
    match json_text.parse(text.encode(errors="surrogatepass")):
        case json_text.Parsed(value=value):
            try:
                small_json(value, TOOL_ARGS_BYTES_MAX, values_max)
            except ValueError as error:
                raise typer.BadParameter(f"{what} is too large: {error}") from None
            return value
        case json_text.NotJson(reason=reason):
            raise typer.BadParameter(f"{what} is not JSON: {reason}. A text is in quotes: '\"…\"'")


def args_of(text: str, what: str) -> dict[str, JsonValue]:
    """The arguments that a person wrote. Raises typer.BadParameter."""
    value = json_of(text, what, EDITED_ARGS_VALUES_MAX)
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{what} is not a JSON object")
    return value


def changed_args(
    requested: ApprovalRequested, args: str | None, editor: str | None
) -> dict[str, JsonValue] | None:
    """The arguments in the place of those asked for, if a person gives any, shown once more.

    Raises typer.BadParameter and typer.Exit.
    """
    if args is not None and editor is not None:
        raise typer.BadParameter("--args and --edit both change the arguments: give one of them")
    if args is not None:
        found = args_of(args, "--args")
    elif editor is not None:
        written = edited(shown_args(requested, None).text, ".json", editor)
        found = args_of(written, "What you wrote")
    else:
        return None
    if canonical_digest(found) == requested.args_digest and found == requested.args:
        refuse("The arguments are not changed: approve without --edit and --args.")
    stderr().print("With these arguments in their place:", markup=False)
    for line in args_lines(requested.model_copy(update={"args": found}), chars_max=None):
        stderr().print(line, markup=False)
    return found


def _asked_approval(settings: KafkaSettings, call: str, workflow: str | None) -> ApprovalRequested:
    requested = _asked(settings, call, workflow)
    if isinstance(requested, InputRequested):
        refuse(f"The call {call} is a question: `{answer_text(call)}`.")
    return requested


def _asked(settings: KafkaSettings, call: str, workflow: str | None) -> Awaited:
    """The call that an id names; where it names calls of several workflows, none is chosen."""
    found = asyncio.run(_load(settings, workflow)).named(call, workflow, now())
    if not found:
        refuse(f"No call {call} awaits a person.")
    if len(found) > 1:
        message = f"{len(found)} calls have the id {call}: name one with --workflow."
        refuse(message, (f"--workflow {shlex.quote(one.workflow_id)}" for one in found))
    return found[0]


def _publish(settings: KafkaSettings, asked: Awaited, send: Send, *, as_json: bool) -> None:
    """Publish what a person says, and say what came of it. Raises typer.Exit if nothing did."""
    published, applied = asyncio.run(controlled(settings, send))
    if as_json:
        place = {"partition": published.partition, "offset": published.offset}
        effect = applied and applied.effect
        typer.echo(json_lines({"call_id": asked.call_id, "effect": effect, **place}))
    else:
        stdout().print(plain_line(_effect_text(asked, applied)), markup=False)
    if applied is None or applied.effect not in DONE:
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
        refuse("The arguments of this call are not those of its digest: do not approve it.")
    if args.is_cut and digest is None and may_ask and sys.stdin.isatty():
        digest = typer.prompt(f"The first {DIGEST_CHARS} characters of the digest", err=True)
    if args.is_cut and digest is None:
        refuse(
            "The arguments are cut. See them whole with "
            f"`{show_text(requested)}`, and approve them with --digest."
        )
    if digest is not None and not args.is_typed(digest):
        refuse(f"The digest of these arguments does not begin so: give {DIGEST_CHARS} characters.")


def _effect_text(requested: Awaited, applied: ControlApplied | None) -> str:
    if applied is None:
        return not_read(f"The decision about {requested.call_id}", requested.workflow_id)
    match applied.effect:
        case "denied" if _is_approval(applied):
            return f"The policy of its agent denies the call {requested.call_id} as you changed it."
        case "approved" | "denied" | "answered":
            return f"The call {requested.call_id} is {applied.effect}."
        case "invalid":
            what = "The answer does" if isinstance(requested, InputRequested) else "They do"
            return f"{what} not fit, and the call waits: {problems_text(applied.problems)}"
        case "nothing" | "cancelled" | "remembered":
            return f"Too late: {requested.call_id} was decided before, or its run is over."
        case _:
            assert_never(applied.effect)


def _is_approval(applied: ControlApplied) -> bool:
    return isinstance(applied.control, Approval) and applied.control.decision == "approved"


async def _load(settings: KafkaSettings, workflow_id: str | None) -> OpenApprovals:
    found, bus = OpenApprovals(), bus_of(settings)
    since = now() - APPROVAL_AGE_MAX
    async with reading(bus, (STEPS,), workflow_id=workflow_id, since=since) as reader:
        async for batch in reader.to_end():
            for stored in filter(may_concern_approvals, batch):
                found.take(decoded(stored).event)
    return found
