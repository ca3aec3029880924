"""Runs `answerbus ask`: publishes one request and waits for its outcome."""

import asyncio
import sys
from codecs import BOM_UTF8
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from answerbus.client import NoAnswerYet
from answerbus.client.bus import Bus
from answerbus.client.connection import request_record
from answerbus.client.request_id import new_id
from answerbus.client.timeout import timeout_s_default
from answerbus.event import AnyOutcome
from answerbus.outcome import Result
from answerbus.registry import Registry
from answerbus.request import Request
from services.command_line import (
    EXIT_CTRL_C,
    bus_of,
    client_of,
    content_of,
    stderr,
    stdout,
    workflow_command,
)
from services.commands.ask_request import AskArguments, request_of_arguments, request_of_file
from services.commands.following import interrupted_text, show_to_end
from services.commands.notices import Notices
from services.commands.show_outcome import show
from services.settings import plugins
from services.settings.settings import KafkaSettings, from_environment
from services.text.escaping import json_line, plain, plain_json

How = Literal["publish", "wait", "follow"]
QUEUED = "queued: waits for a worker"


def ask_once(
    arguments: AskArguments,
    request_file: str | None,
    config: Path | None,
    timeout_s: float | None,
    *,
    how: How,
    as_json: bool,
) -> bool:
    """Whether there is a result; it is printed. Raises typer.BadParameter, SetUpError."""
    registry = plugins.registry()
    prepared = _prepared(arguments, request_file, registry)
    try:
        request_record(prepared, None)
    except ValueError as error:
        raise typer.BadParameter(plain(str(error))) from None
    settings = from_environment(config).kafka
    if how == "publish":
        asyncio.run(_publish(settings, registry, prepared, as_json=as_json))
        return True
    wait_s = timeout_s_default(prepared) if timeout_s is None else timeout_s
    may_go_on = asyncio.Event()  # once it may be published
    if how == "follow":
        waiting = _follow(settings, registry, prepared, wait_s, may_go_on, as_json=as_json)
    else:
        waiting = _wait(settings, registry, prepared, wait_s, may_go_on)
    try:
        outcome = asyncio.run(waiting)
    except KeyboardInterrupt:
        raise _interrupted(prepared, may_go_on=may_go_on.is_set()) from None
    except NoAnswerYet:
        raise _no_answer(prepared, wait_s) from None
    if how == "follow" and as_json:
        pass  # its line was the last one
    elif as_json:
        typer.echo(plain_json(outcome.model_dump_json()))
    else:
        show(outcome, stdout(), stderr())
    return isinstance(outcome, Result)


def _prepared(arguments: AskArguments, request: str | None, registry: Registry) -> Request:
    if request is None and arguments.instructions:
        return request_of_arguments(arguments, registry, _read, new_id())
    if request is None or arguments != AskArguments(""):
        raise typer.BadParameter(
            "Nothing to ask: give a text, or a whole request with --request FILE."
        )
    return request_of_file(_read(request), new_id())


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read().removeprefix(BOM_UTF8)
    return content_of(Path(path))


async def _publish(
    settings: KafkaSettings, registry: Registry, request: Request, *, as_json: bool
) -> None:
    async with client_of(settings, registry) as client:
        published = await client.publish(request)
    if as_json:
        typer.echo(json_line(asdict(published)))
        return
    typer.echo(plain(f"Published {published.request_id} in workflow {request.workflow_id}"))


async def _wait(
    settings: KafkaSettings,
    registry: Registry,
    request: Request,
    timeout_s: float,
    may_go_on: asyncio.Event,
) -> AnyOutcome:
    shown = _waiting_shown(bus_of(settings), request, stderr())
    async with client_of(settings, registry) as client, shown:
        may_go_on.set()
        return await client.ask_request(request, timeout_s=timeout_s)


async def _follow(
    settings: KafkaSettings,
    registry: Registry,
    request: Request,
    timeout_s: float,
    may_go_on: asyncio.Event,
    *,
    as_json: bool,
) -> AnyOutcome:
    bus = bus_of(settings)
    async with client_of(settings, registry) as client:
        return await show_to_end(client, bus, request, timeout_s, may_go_on.set, as_json=as_json)


def _interrupted(request: Request, *, may_go_on: bool) -> typer.Exit:
    not_begun = "Not waiting any more. Nothing is published."
    text = interrupted_text(request) if may_go_on else not_begun
    stderr().print("\n" + text, style="yellow", markup=False)
    return typer.Exit(EXIT_CTRL_C)


def _no_answer(request: Request, timeout_s: float) -> typer.Exit:
    stderr().print(
        f"No outcome within {timeout_s:g} s. Request {request.request_id} goes on: "
        f"`{workflow_command(request.workflow_id)}` shows how far it is.",
        style="yellow",
        markup=False,
    )
    return typer.Exit(1)


@asynccontextmanager
async def _waiting_shown(bus: Bus, request: Request, console: Console) -> AsyncIterator[None]:
    """A spinner for as long as the block lasts, if the console is a terminal."""
    if not console.is_terminal:
        yield
        return
    description = TextColumn("{task.description}", markup=False, table_column=Column())  # wraps
    columns = (SpinnerColumn(), TimeElapsedColumn(), description)
    with Progress(*columns, console=console, transient=True) as progress:
        row = progress.add_task(QUEUED)
        notices = Notices(bus, request, lambda text: progress.update(row, description=text))
        async with notices.given():
            yield
