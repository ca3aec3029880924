"""Writes controls from the command line, and shows their effects."""

from collections.abc import Awaitable, Callable

import typer
from pydantic import ValidationError

from answerbus.client import Client, PublishedControl
from answerbus.control import ControlApplied
from answerbus.problems import pointer
from services.command_line import client_of, workflow_command
from services.settings.settings import KafkaSettings

EFFECT_S_MAX = 30.0


async def controlled(
    settings: KafkaSettings, send: Callable[[Client], Awaitable[PublishedControl]]
) -> tuple[PublishedControl, ControlApplied | None]:
    """Where it was written, and its effect; None if no worker has read it in time.

    Raises typer.BadParameter for ids and texts that no control may have.
    """
    async with client_of(settings) as client:
        try:
            published = await send(client)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = pointer(first["loc"]).removeprefix("/")
            raise typer.BadParameter(f"{name}: {first['msg']}") from None
        return published, await client.effect_of(published, timeout_s=EFFECT_S_MAX)


def not_read(what: str, workflow_id: str) -> str:
    """That it is written and has no effect so far, for people."""
    return (
        f"{what} is written; no worker has read it within {EFFECT_S_MAX:g} s. "
        f"`{workflow_command(workflow_id)}` shows what comes of it."
    )
