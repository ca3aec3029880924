"""Runs `answerbus ask`: publishes one request and waits for its outcome."""

import asyncio
import shlex
import sys
import time
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from answerbus.client import NoAnswerYet
from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.client.request_id import new_id
from answerbus.client.timeout import timeout_s_default
from answerbus.envelope import Undecodable
from answerbus.event import AnyOutcome, Event
from answerbus.outcome import Result, RetryRequest
from answerbus.private.ledger import AccountRecord
from answerbus.registry import Registry
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.topics import LEDGER, RETRIES, Topic
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
from services.commands.following import show_to_end
from services.commands.kafka_away import KafkaAway, end_notices
from services.commands.show_outcome import show
from services.console.views.units import usd
from services.operators.adapters.reader import reading
from services.operators.records.decoded import decoded
from services.operators.records.event_line import retry_text
from services.operators.records.stored import RetryEnded
from services.settings import plugins
from services.settings.settings import KafkaSettings, from_environment
from services.text.counted import count_text
from services.text.escaping import json_line, plain, plain_json

How = Literal["publish", "wait", "follow"]
QUEUED = "queued: waits for a worker"
NO_WORKER = "still queued: does a worker run? `answerbus doctor` says so"
NO_WORKER_AFTER_S = 10.0
IN_PLACE_S_MAX = 2.0  # longer than this no request waits for its spinner

Say = Callable[[str], None]


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
    settings = from_environment(config).kafka
    if how == "publish":
        asyncio.run(_publish(settings, registry, prepared, as_json=as_json))
        return True
    wait_s = timeout_s_default(prepared) if timeout_s is None else timeout_s
    if how == "follow":
        waiting = _follow(settings, registry, prepared, wait_s, as_json=as_json)
    else:
        waiting = _wait(settings, registry, prepared, wait_s)
    try:
        outcome = asyncio.run(waiting)
    except KeyboardInterrupt:
        raise _interrupted(prepared) from None
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
    settings: KafkaSettings, registry: Registry, request: Request, timeout_s: float
) -> AnyOutcome:
    shown = _waiting_shown(bus_of(settings), request, stderr())
    async with client_of(settings, registry) as client, shown:
        return await client.ask_request(request, timeout_s=timeout_s)


async def _follow(
    settings: KafkaSettings,
    registry: Registry,
    request: Request,
    timeout_s: float,
    *,
    as_json: bool,
) -> AnyOutcome:
    async with client_of(settings, registry) as client:
        return await show_to_end(client, bus_of(settings), request, timeout_s, as_json=as_json)


def _interrupted(request: Request) -> typer.Exit:
    stderr().print("\n" + interrupted_text(request), style="yellow", markup=False)
    return typer.Exit(EXIT_CTRL_C)


def interrupted_text(request: Request) -> str:
    """Ctrl-C ends the wait alone: the request goes on, and may cost as much as its budget."""
    workflow = shlex.quote(request.workflow_id)
    return (
        f"Not waiting any more. Request {request.request_id} goes on, and {_cost_text(request)}: "
        f"`{workflow_command(request.workflow_id)}` shows how far it is, "
        f"`answerbus cancel {request.request_id} --workflow {workflow} --reason …` ends it."
    )


def _cost_text(request: Request) -> str:
    budget = request.budget
    if request.agent is not None and not request.names_budget:
        return "may cost as much as the budget of its agent"
    amounts = [count_text(budget.attempts, "call")]
    if budget.tokens is not None:
        amounts.append(count_text(budget.tokens, "token"))
    if budget.micro_usd is not None:
        amounts.append(usd(budget.micro_usd))
    return f"may cost up to {', '.join(amounts)} in all"


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
        in_place = asyncio.Event()
        progress_task = asyncio.create_task(
            _show_progress(
                bus, request, in_place, lambda text: progress.update(row, description=text)
            )
        )
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(in_place.wait(), IN_PLACE_S_MAX)
            yield
        finally:
            await end_notices(progress_task)


async def _show_progress(bus: Bus, request: Request, in_place: asyncio.Event, say: Say) -> None:
    try:
        await _follow_state(bus, (RETRIES, LEDGER), request, in_place, say)
    except BusUnavailable:  # only operators have a right to the ledger
        await _follow_state(bus, (RETRIES,), request, in_place, say)


async def _follow_state(
    bus: Bus, topics: Collection[Topic], request: Request, in_place: asyncio.Event, say: Say
) -> None:
    async with reading(bus, topics, workflow_id=request.workflow_id, from_start=False) as reader:
        in_place.set()
        began, is_known = time.monotonic(), LEDGER not in topics
        away = KafkaAway(str(bus.servers), say)
        async for batch in reader.follow():
            away.look(is_connected=reader.is_connected)
            for stored in batch:
                if text := progress_text(decoded(stored).event, request):
                    is_known = True
                    say(text)
            is_late = time.monotonic() - began > NO_WORKER_AFTER_S
            if not is_known and is_late and reader.is_connected:
                say(NO_WORKER)


def progress_text(event: Event | RetryEnded | Undecodable, request: Request) -> str | None:
    """The event of an awaited request in a record; None if it is about others."""
    match event:
        case RetryRequest() if RequestKey.of(event) == RequestKey.of(request):
            return f"waits for {retry_text(event)}"
        case AccountRecord() if event.account_id == request.account_id:
            for spend in event.in_flight:
                if spend.request_id == request.request_id:
                    return f"attempt {spend.attempt} is under way for profile {request.profile}"
            if any(one.request_id == request.request_id for one in event.open):
                return "waits for its next attempt"
            return None
        case _:
            return None
