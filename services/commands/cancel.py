"""`answerbus cancel`: ends an open request, a run or not, or all requests of a workflow."""

import asyncio
import shlex
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import Annotated, assert_never

import typer

from answerbus.client import Client, PublishedControl
from answerbus.client.bus import Bus
from answerbus.control import ControlApplied
from answerbus.limits import RUN_TTL_S_MAX
from answerbus.request import Request
from answerbus.topics import REQUESTS
from services.command_line import EXIT_NOT_DONE, AsJson, Config, bus_of, refuse, stdout
from services.commands.controlling import controlled, not_read
from services.operator_options import By, Reason, Yes, confirm, now, operator
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from services.settings.settings import KafkaSettings, from_environment
from services.text.counted import count_text
from services.text.escaping import json_lines, plain_line

REQUEST_AGE_MAX = timedelta(seconds=RUN_TTL_S_MAX, hours=1)  # what is older is not open any more
CANDIDATES_SHOWN_MAX = 20  # workflows

RequestId = Annotated[str | None, typer.Argument(metavar="REQUEST", help="The id of a request.")]
Workflow = Annotated[
    str | None,
    typer.Option(
        "--workflow",
        metavar="ID",
        help="The request's workflow. Without a request: all that is open in it.",
    ),
]


def cancel(
    request: RequestId = None,
    *,
    reason: Reason,
    workflow: Workflow = None,
    by: By = None,
    yes: Yes = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """End an open request, or all of a workflow. Exit code 1: nothing was open.

    Also 1 if no worker has read the cancellation yet. A request that no worker has read yet is
    cancelled as soon as one does: exit code 0.
    """
    settings, who = from_environment(config).kafka, operator(by)
    if request is None and not workflow:
        raise typer.BadParameter("Name a request, or a workflow with --workflow.")
    found = workflow or _the_one(request or "", bus_of(settings))
    if not yes:
        confirm(f"Cancel {plain_line(_what(request, found))} as {plain_line(who)}?")
    applied = asyncio.run(_cancel(settings, request, found, who, reason))
    if as_json:
        data = {
            "request_id": request,
            "workflow_id": found,
            "effect": applied and applied.effect,
            "requests": list(applied.requests) if applied else [],
        }
        typer.echo(json_lines(data))
    else:
        stdout().print(plain_line(said_of(request, found, applied)), markup=False)
    done = ("cancelled",) if request is None else ("cancelled", "remembered")
    if applied is None or applied.effect not in done:
        raise typer.Exit(EXIT_NOT_DONE)


def said_of(request_id: str | None, workflow_id: str, applied: ControlApplied | None) -> str:
    """The effect of a cancellation, for people; without a request it is of the whole workflow."""
    what = _what(request_id, workflow_id)
    if applied is None:
        return not_read(f"The cancellation of {what}", workflow_id)
    match applied.effect:
        case "cancelled":
            return f"{count_text(len(applied.requests), 'request')} cancelled."
        case "remembered" if request_id is None:
            return (
                f"The workflow {workflow_id} has no open request. One that was published before, "
                "and that no worker has read yet, is cancelled as soon as one does."
            )
        case "remembered":
            return "No worker has read the request yet: it is cancelled as soon as one does."
        case "nothing" | "approved" | "denied" | "answered" | "invalid":
            return f"Nothing is cancelled: {what} ended before, or was cancelled before."
        case _:
            assert_never(applied.effect)


def _what(request_id: str | None, workflow_id: str) -> str:
    if request_id is not None:
        return f"the request {request_id}"
    return f"all open requests of the workflow {workflow_id}"


def _the_one(request_id: str, bus: Bus) -> str:
    """The workflow that has a request of this id; where several have, none is chosen."""
    found = asyncio.run(_workflows_of(bus, request_id))
    if not found:
        refuse(f"No request {request_id} is kept: name its --workflow.")
    if len(found) > 1:
        message = f"{len(found):,} workflows have a request {request_id}: name one with --workflow."
        shown = found[:CANDIDATES_SHOWN_MAX]
        refuse(message, (f"--workflow {shlex.quote(workflow_id)}" for workflow_id in shown))
    return found[0]


async def _workflows_of(bus: Bus, request_id: str) -> Sequence[str]:
    """The workflows that have asked a request of this id, the first first."""
    key, found = request_id.encode(), dict[str, None]()
    async with reading(bus, (REQUESTS,), since=now() - REQUEST_AGE_MAX) as reader:
        async for stored in reader.records():
            if key not in (stored.value or b""):
                continue
            event = decoded(stored).event
            if isinstance(event, Request) and event.request_id == request_id:
                found[event.workflow_id] = None
    return list(found)


async def _cancel(
    settings: KafkaSettings, request_id: str | None, workflow_id: str, by: str, reason: str
) -> ControlApplied | None:
    def send(client: Client) -> Awaitable[PublishedControl]:
        if request_id is None:
            return client.cancel_workflow(workflow_id, by=by, reason=reason)
        return client.cancel(request_id, workflow_id, by=by, reason=reason)

    _, applied = await controlled(settings, send)
    return applied
