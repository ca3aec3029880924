"""Runs `answerbus ask`: publishes one request and waits for its outcome."""

import asyncio
import secrets
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import typer

from answerbus.client import NoAnswerYet, uuid7
from answerbus.client.request_id import RANDOM_BYTES
from answerbus.client.timeout import timeout_s_default
from answerbus.event import Terminal
from answerbus.outcome import Result
from answerbus.registry import Registry
from answerbus.request import Request
from services.command_line import bus_of, stderr, stdout
from services.commands.ask_progress import waiting_shown
from services.commands.ask_request import AskArguments, request_of_arguments, request_of_file
from services.commands.client_of import client_of
from services.commands.following import RunView, follow_to_end, show_json
from services.commands.show_terminal import show
from services.settings import plugins
from services.settings.settings import KafkaSettings, from_environment
from services.text.escaping import json_line, plain, plain_json

How = Literal["publish", "wait", "follow"]
EXIT_CTRL_C = 130


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
    waiting = _follow if how == "follow" else _wait
    wait_s = timeout_s_default(prepared) if timeout_s is None else timeout_s
    try:
        terminal = asyncio.run(waiting(settings, registry, prepared, wait_s, as_json=as_json))
    except KeyboardInterrupt:
        raise _interrupted(prepared) from None
    if how == "follow" and as_json:
        pass  # its line was the last one
    elif as_json:
        typer.echo(plain_json(terminal.model_dump_json()))
    else:
        show(terminal, stdout(), stderr())
    return isinstance(terminal, Result)


def _prepared(arguments: AskArguments, request: str | None, registry: Registry) -> Request:
    new_id = str(uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(RANDOM_BYTES)))
    if request is None and arguments.instructions:
        return request_of_arguments(arguments, registry, _read, new_id)
    if request is None or arguments != AskArguments(""):
        raise typer.BadParameter(
            "Nothing to ask: give a text, or a whole request with --request FILE."
        )
    return request_of_file(_read(request), new_id)


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None


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
    *,
    as_json: bool,  # noqa: ARG001 - the outcome alone is shown so
) -> Terminal:
    shown = waiting_shown(bus_of(settings), request, stderr())
    try:
        async with client_of(settings, registry) as client, shown:
            return await client.ask_request(request, timeout_s=timeout_s)
    except NoAnswerYet:
        raise _no_answer(request, timeout_s) from None


async def _follow(
    settings: KafkaSettings,
    registry: Registry,
    request: Request,
    timeout_s: float,
    *,
    as_json: bool,
) -> Terminal:
    try:
        async with client_of(settings, registry) as client:
            if as_json:
                return await follow_to_end(client, request, timeout_s, show_json)
            with RunView(stderr(), request) as view:
                return await follow_to_end(client, request, timeout_s, view.show)
    except NoAnswerYet:
        raise _no_answer(request, timeout_s) from None


def _interrupted(request: Request) -> typer.Exit:
    """Ctrl-C ends the wait alone: the request goes on, and may cost more."""
    stderr().print(
        f"\nNot waiting any more. Request {request.request_id} goes on and may cost more: "
        f"`answerbus workflow {request.workflow_id}` shows how far it is, "
        f"`answerbus cancel {request.request_id} --workflow {request.workflow_id} --reason …` "
        "ends it.",
        style="yellow",
        markup=False,
    )
    return typer.Exit(EXIT_CTRL_C)


def _no_answer(request: Request, timeout_s: float) -> typer.Exit:
    stderr().print(
        f"No outcome within {timeout_s:g} s. Request {request.request_id} goes on: "
        f"`answerbus workflow {request.workflow_id}` shows how far it is.",
        style="yellow",
        markup=False,
    )
    return typer.Exit(1)
