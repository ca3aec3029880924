"""What `answerbus ask` does: it publishes one request and waits for what becomes of it."""

import asyncio
import secrets
import sys
import time
from dataclasses import asdict
from pathlib import Path

import typer

from answerbus.client import Client, NoAnswerYet, uuid7
from answerbus.client.request_id import RANDOM_BYTES
from answerbus.event import Terminal
from answerbus.outcome import Result
from answerbus.registry import Registry
from answerbus.request import Request
from services import plugins
from services.command_line import bus_of, stderr, stdout
from services.commands.ask_progress import waiting_shown
from services.commands.ask_request import AskArguments, request_of_arguments, request_of_file
from services.commands.show_terminal import show
from services.escaping import json_line, plain, plain_json
from services.kafka import client_options, option_names
from services.settings import KafkaSettings, from_environment


def ask_once(
    arguments: AskArguments,
    request_file: str | None,
    config: Path | None,
    timeout_s: float,
    *,
    no_wait: bool,
    as_json: bool,
) -> bool:
    """Whether there is a result; it is printed. Raises typer.BadParameter, SetUpError."""
    registry = plugins.registry()
    prepared = _prepared(arguments, request_file, registry)
    settings = from_environment(config).kafka
    if no_wait:
        asyncio.run(_publish(settings, registry, prepared, as_json=as_json))
        return True
    terminal = asyncio.run(_wait(settings, registry, prepared, timeout_s))
    if as_json:
        typer.echo(plain_json(terminal.model_dump_json()))
    else:
        show(terminal, stdout(), stderr())
    return isinstance(terminal, Result)


def _prepared(arguments: AskArguments, request: str | None, registry: Registry) -> Request:
    new_id = str(uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(RANDOM_BYTES)))
    if request is None and arguments.instructions:
        return request_of_arguments(arguments, registry, _read, new_id)
    if request is None or arguments != AskArguments(""):
        raise typer.BadParameter("Give instructions with their options, or --request alone.")
    return request_of_file(_read(request), new_id)


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None


async def _publish(
    settings: KafkaSettings, registry: Registry, request: Request, *, as_json: bool
) -> None:
    async with _client(settings, registry) as client:
        published = await client.publish(request)
    if as_json:
        typer.echo(json_line(asdict(published)))
        return
    typer.echo(plain(f"Published {published.request_id} in workflow {request.workflow_id}"))


async def _wait(
    settings: KafkaSettings, registry: Registry, request: Request, timeout_s: float
) -> Terminal:
    console = stderr()
    shown = waiting_shown(bus_of(settings), request, console)
    try:
        async with _client(settings, registry) as client, shown:
            return await client.ask_request(request, timeout_s=timeout_s)
    except NoAnswerYet:
        console.print(
            f"No outcome within {timeout_s:g} s. Request {request.request_id} goes on: "
            f"`answerbus watch --workflow {request.workflow_id} --from-start` shows it.",
            style="yellow",
            markup=False,
        )
        raise typer.Exit(1) from None


def _client(settings: KafkaSettings, registry: Registry) -> Client:
    options = client_options(settings)
    return Client(
        **options,
        topic_prefix=settings.topic_prefix,
        client_rack=settings.client_rack,
        registry=registry,
        option_names=option_names(settings),
    )
